package demo

import (
	"net/mail"

	"github.com/onceward/onceward/actions"
)

// checkAddress refuses a field that is not one bare e-mail address. JSON Schema's
// format for addresses is an annotation and checks nothing by itself.
func checkAddress(args actions.Arguments, field string) error {
	text, _ := args.Text(field)
	address, err := mail.ParseAddress(text)
	if err == nil && address.Address == text && address.Name == "" {
		return nil
	}
	return &actions.ArgumentsError{Violations: []actions.Violation{{
		Field: field, Reason: actions.ReasonFormat, Message: "is not a bare e-mail address, such as dana@example.test",
	}}}
}
