package proof

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/actions"
)

// Dangers reads the contract of an action type without running anything, and
// says where its promises do not fit each other or the runner's schedule.
// hasLooker says whether the adapter can look effects up. Errors come first.
func Dangers(spec actions.Spec, hasLooker bool) []Danger {
	spec = spec.WithDefaults()
	d := dangers{spec: spec, looks: hasLooker}
	d.keys()
	d.lookups()
	d.resolution()
	d.recipe()
	slices.SortStableFunc(d.found, func(a, b Danger) int { return strings.Compare(string(a.Severity), string(b.Severity)) })
	return d.found
}

// dangers are those of the subject, with what its author acknowledged.
func (s *sample) dangers() []Danger {
	found := Dangers(s.spec, s.looks)
	for i := range found {
		if reason := s.Acknowledged[found[i].Code]; reason != "" {
			found[i].Severity, found[i].Acknowledged = Warning, reason
		}
	}
	return found
}

type dangers struct {
	spec  actions.Spec
	looks bool
	found []Danger
}

func (d *dangers) add(severity Severity, code, format string, args ...any) {
	d.found = append(d.found, Danger{Code: code, Severity: severity, Message: fmt.Sprintf(format, args...)})
}

// unlessLooks is the severity of what a look-up makes good.
func (d *dangers) unlessLooks() Severity {
	if d.looks {
		return Warning
	}
	return Error
}

func (d *dangers) keys() {
	keys, spec := d.spec.Contract.Keys, d.spec
	if !keys.Honoured {
		if keys.StoresFailures {
			d.add(Warning, "failures_without_keys", "the contract stores failures under keys that it does not honour: one of the two is wrong")
		}
		return
	}
	horizon := keys.Horizon()
	switch first, typical, worst := 2*lease(spec), replaySchedule(spec, spec.Timeout), replaySchedule(spec, lease(spec)); {
	case spec.MaxAttempts < 2:
		d.add(d.unlessLooks(), "no_replay", "the provider honours keys, but max_attempts is 1: a doubt is never resolved by sending the same key again")
	case horizon <= first:
		// The runner sends a key again only if it can still arrive in its window.
		d.add(d.unlessLooks(), "window_shorter_than_lease", "the key window less its margin (%s) ends before a killed worker's attempt can be sent again (%s, twice timeout and lease grace): after a crash the key is of no use", horizon, first)
	case horizon < typical+lease(spec):
		d.add(d.unlessLooks(), "window_shorter_than_retries", "the key window less its margin (%s) ends before the last of %d attempts can be made (%s after the first, and up to %s for itself): later attempts are not made", horizon, spec.MaxAttempts, typical, lease(spec))
	case horizon < worst+lease(spec):
		d.add(Warning, "window_shorter_than_crashes", "the key window less its margin (%s) ends before the last of %d attempts if each worker is killed (%s after the first)", horizon, spec.MaxAttempts, worst)
	}
	if keys.Margin == 0 {
		d.add(Warning, "no_margin", "the key window has no margin: clocks that disagree, and a request that is long on its way, can meet a provider that has forgotten the key")
	}
}

func (d *dangers) lookups() {
	rules := d.spec.Contract.Lookup
	if !d.looks {
		if rules.Authoritative {
			d.add(Error, "lookup_missing", "the contract says what a look-up proves, but the adapter has none")
		}
		return
	}
	switch {
	case !rules.Authoritative && !d.spec.Contract.Keys.Honoured:
		d.add(Warning, "absence_never_proved", "a look-up that finds nothing proves nothing, and the provider honours no keys: a request that never arrived always ends before a person")
	case !rules.Authoritative:
	case rules.SettleTime == 0:
		d.add(Error, "no_settle_time", "a look-up that finds nothing counts at once: a request that is still on its way, or not shown yet, would be sent a second time. Name the settle time that the provider promises")
	}
	if !rules.Authoritative {
		return
	}
	if rules.NegativeReads >= d.spec.MaxResolves {
		d.add(Error, "reads_never_fit", "absence wants %d negative reads, and there are %d looks at a doubt: it can never be proved", rules.NegativeReads, d.spec.MaxResolves)
	}
	if rules.NegativeReads == 1 && rules.SettleTime > 0 {
		d.add(Warning, "one_negative_read", "one look-up that finds nothing is taken for absence: one answer of a stale replica is enough for a second effect")
	}
	if d.spec.Contract.LateLanding == 0 && rules.SettleTime > 0 {
		d.add(Warning, "no_late_landing", "after a proved absence nobody looks again: a request that lands late stays unnoticed. Name a time for which that can happen")
	}
	if total := resolveSchedule(d.spec); rules.SettleTime > 24*time.Hour {
		d.add(Warning, "long_settle_time", "the settle time (%s) keeps a doubt open for days; without it a person would be asked after %s", rules.SettleTime, total.Round(time.Second))
	}
}

func (d *dangers) resolution() {
	contract := d.spec.Contract
	switch {
	case d.looks, contract.Keys.Honoured && d.spec.MaxAttempts > 1:
	case contract.EventWait > 0:
		d.add(Warning, "events_only", "doubt is resolved by the provider's own events alone: when one is lost a person is asked after %s", contract.EventWait)
	default:
		d.add(Error, "no_resolution", "there is no way to find out about a doubt: no key that is honoured, no look-up, no events. Each lost answer ends before a person; acknowledge that, or find a way")
	}
}

// recipe looks at where the key comes from.
func (d *dangers) recipe() {
	var schema struct {
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(d.spec.Schema, &schema) // NewRegistry reports a schema that is none
	for _, part := range d.spec.Key {
		path, ok := strings.CutPrefix(part.From, "arguments.")
		if !ok {
			continue
		}
		top, _, _ := strings.Cut(path, ".")
		switch {
		case slices.Contains(d.spec.AdvisoryArgs, top):
			d.add(Error, "advisory_in_key", "key part %s comes from %s, which is advisory: a rephrased note would be a new action", part.Name, top)
		case !slices.Contains(schema.Required, top):
			d.add(Warning, "optional_in_key", "key part %s comes from %s, which the schema does not require: a request without it is refused unless it brings a key", part.Name, top)
		}
	}
}
