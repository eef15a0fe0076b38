package model

import (
	"flag"
	"testing"
)

var depth = flag.Int("depth", 0, "search so many steps deep, in place of what the scenarios say; less than 0: to the end")

func TestDebugScenarios(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			r := New(s).Search(Laws(), Limits{Worlds: 60000})
			t.Log(r)
			if r.Violation != nil {
				t.Error(r.Violation)
			}
		})
	}
}
