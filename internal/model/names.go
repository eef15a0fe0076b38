package model

import "strconv"

// names numbers the few texts that rows hold, so that a world holds no pointer.
// The empty text is 0.
type names struct {
	numbers map[string]uint8
	texts   []string
}

func newNames() *names { return &names{numbers: map[string]uint8{"": 0}, texts: []string{""}} }

// number returns the number of a text, a new one for a new text. There are some
// dozen, since the code under test takes them from small sets.
func (n *names) number(text string) uint8 {
	if i, ok := n.numbers[text]; ok {
		return i
	}
	i := uint8(len(n.texts))
	if i == never {
		panic("model: more texts than a byte can number: something composes them")
	}
	n.numbers[text], n.texts = i, append(n.texts, text)
	return i
}

func (n *names) text(number uint8) string { return n.texts[number] }

// reference is the provider's name of the effect that it made as its nth.
func reference(nth int) string { return "effect-" + strconv.Itoa(nth) }

// jobReference is its name of the work that it took up.
const jobReference = "effect-1"
