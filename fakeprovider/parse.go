package fakeprovider

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What [ParseFault] fills in where a name leaves it open.
const (
	ParsedDelay      = 3 * time.Second
	ParsedLookupLag  = 3 * time.Second
	ParsedRetryAfter = time.Second
)

const (
	lagSuffix       = "_and_lag_look_up"
	duplicateSuffix = "_and_duplicate_look_up"
	afterSuffix     = "_after_applying"
	beforeSuffix    = "_before_applying"
)

// ParseFault turns a name into a fault. It reads
//
//   - the text of every [Kind];
//   - short forms with a number: error_503_after_applying,
//     error_500_before_applying, refuse_404, redirect_303, delay_3s;
//   - rate_limited_once, lag_look_up, duplicate_look_up;
//   - html_502, never_answer and redirects with _after_applying;
//   - own_answer:NAME;
//   - any of them with _and_lag_look_up or _and_duplicate_look_up.
//
// Durations that the name leaves open are the Parsed constants. The result of
// refuse_connection_once cannot be scripted; see [RefuseConnection].
func ParseFault(name string) (Fault, error) {
	base, lag := strings.CutSuffix(name, lagSuffix)
	base, duplicate := strings.CutSuffix(base, duplicateSuffix)
	if rest, more := strings.CutSuffix(base, lagSuffix); more {
		base, lag = rest, true
	}
	f, err := parseBase(base)
	if err == nil && f.kind() != RefuseConnection {
		err = f.Validate()
	}
	if err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", name, err)
	}
	if lag {
		f.LookupLag = ParsedLookupLag
	}
	f.DuplicateLookup = f.DuplicateLookup || duplicate
	return f, nil
}

func parseBase(name string) (Fault, error) {
	switch name {
	case "lag_look_up":
		return Fault{Kind: None, LookupLag: ParsedLookupLag}, nil
	case "duplicate_look_up":
		return Fault{Kind: None, DuplicateLookup: true}, nil
	case "rate_limited_once", string(RateLimited):
		return Fault{Kind: RateLimited, RetryAfter: ParsedRetryAfter}, nil
	case string(Delay), string(DelayAfterApplying):
		return Fault{Kind: Kind(name), Delay: ParsedDelay}, nil
	}
	if slices.Contains(Kinds(), Kind(name)) {
		return Fault{Kind: Kind(name)}, nil
	}
	return parseNumbered(name)
}

func parseNumbered(name string) (Fault, error) {
	if rest, ok := strings.CutPrefix(name, "delay_"); ok {
		d, err := time.ParseDuration(rest)
		return Fault{Kind: Delay, Delay: d}, err
	}
	if rest, ok := strings.CutPrefix(name, string(OwnAnswer)+":"); ok {
		return Fault{Kind: OwnAnswer, Answer: rest}, nil
	}
	if rest, ok := strings.CutPrefix(name, "error_"); ok {
		if status, ok := strings.CutSuffix(rest, beforeSuffix); ok {
			return withStatus(Fault{Kind: ErrorBeforeApplying}, status)
		}
		if status, ok := strings.CutSuffix(rest, afterSuffix); ok {
			return withStatus(Fault{Kind: ErrorAfterApplying}, status)
		}
	}
	if status, ok := strings.CutPrefix(name, "refuse_"); ok {
		return withStatus(Fault{Kind: Reject}, status)
	}
	base, apply := strings.CutSuffix(name, afterSuffix)
	if status, ok := strings.CutPrefix(base, "redirect_"); ok {
		return withStatus(Fault{Kind: Redirect, Apply: apply}, status)
	}
	switch kind := Kind(base); kind {
	case NeverAnswer, HTML502, Redirect:
		return Fault{Kind: kind, Apply: apply}, nil
	}
	return Fault{}, fmt.Errorf("no such fault")
}

func withStatus(f Fault, text string) (Fault, error) {
	status, err := strconv.Atoi(text)
	if err != nil {
		return Fault{}, fmt.Errorf("status %q is no number", text)
	}
	f.Status = status
	return f, nil
}
