package policyfile

import (
	"regexp"

	"github.com/goccy/go-yaml/ast"

	"github.com/onceward/onceward/internal/strictyaml"
)

// Duration is a length of time: "30s", "1h30m", "30d".
type Duration = strictyaml.Duration

// Decimal is an exact number that is not negative, in plain digits: 500, "1250.00".
type Decimal string

// DecimalPattern is what a [Decimal] looks like: what the ledger can count exactly.
const DecimalPattern = `^[0-9]{1,20}(\.[0-9]{1,12})?$`

// UnmarshalYAML reads a number, in quotes or not.
func (d *Decimal) UnmarshalYAML(node ast.Node) error {
	text := strictyaml.Text(node)
	if matched, err := regexp.MatchString(DecimalPattern, text); err != nil || !matched {
		return strictyaml.Refuse(node, "%q: want plain digits, at most 20 before the point and 12 after it, such as 500 or \"1250.00\"", text)
	}
	*d = Decimal(text)
	return nil
}
