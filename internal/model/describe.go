package model

import (
	"fmt"
	"strings"
)

// Describe is a world in a line, as far as people want to know.
func (m *Model) Describe(w World) string {
	lines := make([]string, 0, m.Keys)
	for i := range m.Keys {
		k := &w.Keys[i]
		line := "no operation"
		if k.Buried {
			line = "swept"
		}
		if r := k.Row; r.Exists {
			line = fmt.Sprintf("%s, effect %s, attempt %d, epoch %d", m.state(r), m.effect(r), r.Attempt, r.Epoch)
			for _, part := range []struct {
				show bool
				text string
			}{
				{r.Reason != 0, "reason " + m.names.text(r.Reason)},
				{r.InDoubt, "in doubt"},
				{r.Reference != 0, "known as " + m.names.text(r.Reference)},
				{r.Review != 0, "asks a person: " + m.names.text(r.Review)},
				{r.Incident, "incident"},
			} {
				if part.show {
					line += ", " + part.text
				}
			}
		}
		line += [...]string{"", "; LOST", "; recovering", "; restored, and nobody said so"}[k.Loss]
		line += fmt.Sprintf("; provider: %d made", k.Provider.Effects)
		if k.Provider.Strange > 0 {
			line += " under a forgotten id"
		}
		for a := range slots {
			if k.Requests[a].UnderWay {
				line += fmt.Sprintf(", attempt %d under way", a+1)
			}
		}
		if m.Keys > 1 {
			line = fmt.Sprintf("key %d: %s", i+1, line)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, " | ")
}

// told are the steps in words; %[1]d is the attempt or the reconciler. It is not
// changed.
var told = map[Kind]string{
	Asks: "a caller asks", Corrects: "a caller corrects the arguments", Cancels: "a caller withdraws",
	Sends: "worker %[1]d sends", IsTooLate: "worker %[1]d finds that it is too late to send", IsRefused: "worker %[1]d finds nobody to connect to",
	TimesOut: "worker %[1]d waits no longer", Lands: "the request of attempt %[1]d lands: ", Settles: "worker %[1]d records its outcome",
	SettlesUnheard: "worker %[1]d records its outcome, and the answer to that is lost", SettlesHalf: "worker %[1]d records its outcome, and dies before it asks a person",
	ReadsAgain: "worker %[1]d was fenced off, and reads the row", Dies: "worker %[1]d dies", LeaseEnds: "the lease ends",
	Retries: "the next attempt is claimed", Takes: "reconciler %[1]d takes the doubt", Looks: "reconciler %[1]d looks or acts",
	LooksInVain: "reconciler %[1]d looks, and learns nothing", Acts: "reconciler %[1]d acts on what it found", DiesRepairing: "reconciler %[1]d dies",
	Watches: "a late landing is looked for", Lapses: "the question lapses", Decides: "a reviewer decides: ",
	Finishes: "the provider finishes", GivesUp: "the provider ends it without an effect", Says: "the provider says so by itself",
	BacksUp: "the ledger is backed up", Loses: "the ledger is lost, and comes back as it was at the backup", Begins: "the ledger is served again",
	Forgets: "the operation is swept", Passes: "a tick passes",
}

// answers are the answers of a provider in words. It is not changed.
var answers = [...]string{
	"done, with a receipt", "taken up, to be finished later", "done, and no answer comes back", "done, and the answer is cut short",
	"not done, and no answer comes back", "not done, it says", "refused for good", "too many requests",
	"still at work on the key, it says", "another body under the key, it says",
}

// Tell is a step in words. w is the world before it.
func (m *Model) Tell(w World, s Step) string {
	text := told[s.kind()]
	if strings.Contains(text, "%") {
		text = fmt.Sprintf(text, s.Who+1)
	}
	switch s.kind() {
	case Asks:
		if s.Arg != 0 {
			text += " with other arguments"
		}
	case Lands:
		text += answers[s.Arg]
	case Decides:
		text += string(decisions[s.Arg])
	case Acts:
		text += [...]string{": inconclusive", ": found", ": absent", ": several", ": ended"}[w.Keys[s.Key].Repairs[s.Who].Finding]
	default:
	}
	if m.Keys > 1 && s.kind() != Passes {
		text = fmt.Sprintf("key %d: %s", s.Key+1, text)
	}
	return text
}
