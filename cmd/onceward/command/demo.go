package command

import "errors"

type demoCmd struct{}

// Run is being written.
func (*demoCmd) Run() error { return errors.New("demo is being written") }
