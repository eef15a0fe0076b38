package dispatch

import "github.com/onceward/onceward/actions"

func (d *Dispatcher) Admit(*actions.Action) error { return nil }
