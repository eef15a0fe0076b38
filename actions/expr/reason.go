package expr

import "strings"

// reasonOf says why an evaluation failed, in words that repeat no value: errors
// are logged and stored, and values are other people's data. What is not known
// to be harmless is left out.
func reasonOf(err error, expression string) string {
	message, _, _ := strings.Cut(err.Error(), "\n")
	for _, named := range []string{"no such key: ", "no such field: "} {
		if name, ok := strings.CutPrefix(message, named); ok {
			if strings.Contains(expression, name) {
				return message // the name is the expression's own
			}
			return strings.TrimSuffix(named, ": ")
		}
	}
	if strings.HasPrefix(message, "index out of bounds") {
		return "index out of bounds"
	}
	for _, harmless := range harmlessReasons() {
		if strings.HasPrefix(message, harmless) {
			return message
		}
	}
	return "fails for these values"
}

// harmlessReasons are how messages begin that hold types, names of functions and
// limits at most: CEL's, then ours.
func harmlessReasons() []string {
	return []string{
		"no such overload", "no such attribute", "division by zero", "modulus by zero", "integer overflow",
		"unsigned integer overflow", "timestamp overflow", "duration overflow", "optional.none() dereference",
		"NaN values cannot be ordered", "operation cancelled", "actual cost limit exceeded", "type conversion error from '",
		"minor_to_decimal: ", "decimal_to_minor: ", "parse_json: ", "json: ", "join: ", "distinct: ", "regex.replace: there is no group ",
		"would make a text of more than ", "matches: ",
		"number is out of range", "a decimal is no ", "the time is out of range",
	}
}
