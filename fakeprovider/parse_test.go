package fakeprovider_test

import (
	"testing"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

func TestParseFault(t *testing.T) {
	type fault = fakeprovider.Fault
	tests := map[string]fault{
		"none":                       {Kind: fakeprovider.None},
		"drop_answer_after_applying": {Kind: fakeprovider.DropAnswerAfterApplying},
		"drop_before_reading":        {Kind: fakeprovider.DropBeforeReading},
		"error_500_after_applying":   {Kind: fakeprovider.ErrorAfterApplying, Status: 500},
		"error_503_before_applying":  {Kind: fakeprovider.ErrorBeforeApplying, Status: 503},
		"error_after_applying":       {Kind: fakeprovider.ErrorAfterApplying},
		"rate_limited_once":          {Kind: fakeprovider.RateLimited, RetryAfter: time.Second},
		"refuse_422":                 {Kind: fakeprovider.Reject, Status: 422},
		"refuse_connection_once":     {Kind: fakeprovider.RefuseConnection},
		"delay_3s":                   {Kind: fakeprovider.Delay, Delay: 3 * time.Second},
		"delay":                      {Kind: fakeprovider.Delay, Delay: fakeprovider.ParsedDelay},
		"delay_250ms":                {Kind: fakeprovider.Delay, Delay: 250 * time.Millisecond},
		"truncate_answer":            {Kind: fakeprovider.TruncateAnswer},
		"lag_look_up":                {Kind: fakeprovider.None, LookupLag: fakeprovider.ParsedLookupLag},
		"duplicate_look_up":          {Kind: fakeprovider.None, DuplicateLookup: true},
		"html_502_after_applying":    {Kind: fakeprovider.HTML502, Apply: true},
		"never_answer":               {Kind: fakeprovider.NeverAnswer},
		"own_answer:outcomes[2]":     {Kind: fakeprovider.OwnAnswer, Answer: "outcomes[2]"},
		"redirect_303":               {Kind: fakeprovider.Redirect, Status: 303},
		"redirect_303_after_applying": {
			Kind: fakeprovider.Redirect, Status: 303, Apply: true},
		"drop_answer_after_applying_and_lag_look_up": {
			Kind: fakeprovider.DropAnswerAfterApplying, LookupLag: fakeprovider.ParsedLookupLag},
		"empty_201_and_duplicate_look_up": {Kind: fakeprovider.Empty201, DuplicateLookup: true},
		"none_and_duplicate_look_up_and_lag_look_up": {
			Kind: fakeprovider.None, DuplicateLookup: true, LookupLag: fakeprovider.ParsedLookupLag},
	}
	for name, want := range tests {
		got, err := fakeprovider.ParseFault(name)
		if err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, want)
		}
	}
}

func TestParseFaultKnowsEveryKindAndItsOwnNames(t *testing.T) {
	for _, kind := range fakeprovider.Kinds() {
		for _, flags := range []fakeprovider.Fault{{}, {LookupLag: 1}, {DuplicateLookup: true}, {LookupLag: 1, DuplicateLookup: true}} {
			flags.Kind = kind
			got, err := fakeprovider.ParseFault(flags.String())
			if err != nil || got.String() != flags.String() {
				t.Errorf("%s: got %s, %v", flags, got, err)
			}
		}
	}
}

func TestParseFaultRefuses(t *testing.T) {
	for _, name := range []string{"", "drop", "delay_", "delay_x", "delay_-1s", "delay_0s", "error_5xx_after_applying",
		"error_404_after_applying", "refuse_", "refuse_500", "redirect_200", "drop_before_reading_after_applying"} {
		if f, err := fakeprovider.ParseFault(name); err == nil {
			t.Errorf("%q parsed as %+v", name, f)
		}
	}
}
