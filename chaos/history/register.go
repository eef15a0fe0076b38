package history

import (
	"github.com/onceward/onceward/ledger"
)

// register is what a key can be after some calls. It is a value; two are the same
// when they are equal.
type register struct {
	held      bool
	arguments int    // that hold it
	operation string // empty while nobody was told
	end       ledger.State
	receipt   string // of a success

	// Sets of arguments that requests may bring from now on: to a free key, and to an
	// operation that failed.
	mayTake, mayCorrect uint64
}

// step returns what the register can be after a call; nothing when the call cannot
// have been answered so.
func (r register) step(c Call) []register {
	switch c.Answer {
	case Nothing:
		// It may happen later, or never: it stays possible. So this call has its place in
		// the order at once, and the search need not try every later one. A request that
		// was answered comes here before its answer: between the two others may see what
		// it has begun.
		if c.Kind == Request {
			r.mayTake |= 1 << c.Arguments
			if c.Corrects {
				r.mayCorrect |= 1 << c.Arguments
			}
		}
		return []register{r}
	case Refused:
		if !c.isDuplicate() {
			return []register{r}
		}
		// A duplicate of what has ended gets the original answer, never a refusal.
		return keep(r.worlds(), func(w register) bool { return !w.held || w.arguments != c.Arguments || !w.end.Final() })
	case Absent:
		if r.held {
			return nil
		}
		return []register{r}
	case Reused:
		return keep(r.worlds(), func(w register) bool { return w.held && w.arguments != c.Arguments })
	case Told:
		return r.told(c)
	}
	return nil
}

// worlds are the register, and what requests may have made of it meanwhile.
func (r register) worlds() []register {
	out := []register{r}
	for a := range 64 {
		bit := uint64(1) << a
		if !r.held && r.mayTake&bit != 0 {
			w := r
			w.held, w.arguments = true, a
			out = append(out, w)
		}
		if r.held && (r.end == ledger.Failed || r.end == "") && r.mayCorrect&bit != 0 && r.arguments != a {
			w := r
			w.arguments, w.end = a, ""
			out = append(out, w)
		}
	}
	return out
}

// told is the register after somebody was told how it is.
func (r register) told(c Call) []register {
	var out []register
	worlds := r.worlds()
	if c.Kind == Request {
		worlds = keep(worlds, func(w register) bool { return w.arguments == c.Arguments })
	}
	for _, w := range worlds {
		if !w.held || w.operation != "" && w.operation != c.OperationID {
			continue
		}
		w.operation = c.OperationID
		if ended, fits := w.ends(c); fits {
			out = append(out, ended)
		}
	}
	return out
}

// ends reports whether an open register can be, or an ended one is, as somebody was
// told; and returns what it is then.
func (r register) ends(c Call) (register, bool) {
	if !c.State.Final() {
		return r, r.end == ""
	}
	receipt := ""
	if c.State == ledger.Succeeded {
		receipt = c.Reference + "\n" + c.Receipt
	}
	if r.end == "" {
		r.end, r.receipt = c.State, receipt
		return r, true
	}
	return r, r.end == c.State && r.receipt == receipt
}

func keep(worlds []register, fits func(register) bool) []register {
	var out []register
	for _, w := range worlds {
		if fits(w) {
			out = append(out, w)
		}
	}
	return out
}
