package policy

import (
	"encoding/json"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Limits of an amount: what the ledger counts exactly (ledger.Charge).
const (
	maxWholeDigits    = 20
	maxFractionDigits = 12
)

var plainAmount = regexp.MustCompile(`^([0-9]+)(?:\.([0-9]+))?$`)

// amountOf is the exact decimal of an expression's result, or what is wrong with
// it. It keeps the digits behind the point as they came (12.50), for people.
func amountOf(value any) (amount, problem string) {
	var text string
	switch v := value.(type) {
	case json.Number:
		if text = v.String(); strings.ContainsAny(text, "eE") {
			text = expanded(text)
		}
	case string:
		text = v
	default:
		return "", "is no number, and the amount comes from it: want an integer, or an exact decimal"
	}
	if strings.HasPrefix(text, "-") {
		return "", "is negative, and the amount comes from it"
	}
	parts := plainAmount.FindStringSubmatch(text)
	if parts == nil {
		return "", "is no exact decimal in plain digits, such as 12 or 12.50, and the amount comes from it"
	}
	whole, fraction := strings.TrimLeft(parts[1], "0"), parts[2]
	if len(fraction) > maxFractionDigits {
		fraction = strings.TrimRight(fraction, "0")
	}
	switch {
	case len(whole) > maxWholeDigits:
		return "", "is too large for an amount: at most 20 digits before the point"
	case len(fraction) > maxFractionDigits:
		return "", "is too fine for an amount: at most 12 digits after the point"
	case whole == "":
		whole = "0"
	}
	if fraction == "" {
		return strings.Clone(whole), "" // not a part of the arguments, which it would keep
	}
	return whole + "." + fraction, ""
}

// expanded writes a number with an exponent in plain digits. One that is far too
// large or too fine for an amount stays as it is: an expression can read a number
// out of a text (parse_json), whose plain digits would be millions.
func expanded(text string) string {
	_, power, _ := strings.Cut(strings.ToLower(text), "e")
	exponent, err := strconv.Atoi(power)
	if err != nil || len(text) > maxExpanded || exponent > maxExpanded || exponent < -maxExpanded {
		return text
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return text
	}
	// Its digits behind the point are no more than these: nothing is rounded.
	return strings.TrimSuffix(strings.TrimRight(exact.FloatString(2*maxExpanded), "0"), ".")
}

// maxExpanded bounds the length and the exponent of a number that is written out.
const maxExpanded = 400

// less returns a - b for texts that are decimals; false where one is none.
func less(a, b string) (string, bool) {
	x, ok1 := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	if !ok1 || !ok2 {
		return "", false
	}
	text := x.Sub(x, y).FloatString(maxFractionDigits)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), "."), true
}
