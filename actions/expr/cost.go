package expr

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/cost"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/common/types/traits"
)

// bytesPerCost is how many bytes of text a unit of cost pays for, as in CEL.
const bytesPerCost = 10

// costs are what our functions cost: by the bytes that they read and write. CEL
// takes a function that it does not know for one that costs nothing.
func costs() cel.ProgramOption {
	var options []cost.TrackerOption
	for _, overload := range []string{
		"sha256hex_string", "uuid_of_string", "xml_string", "json_dyn", "parse_json_string",
		"minor_to_decimal_2", "decimal_to_minor_2", "decimal_to_string", "decimal_to_double", "decimal_dyn", "strings_quote",
	} {
		options = append(options, cost.OverloadTracker(overload, func(args []ref.Val, result ref.Val) *uint64 {
			total := uint64(1) + textCost(result)
			for _, a := range args {
				total += textCost(a)
			}
			return &total
		}))
	}
	return cel.CostTrackerOptions(options...)
}

// estimator says what a call costs whose types are known only when it is made.
// All our variables are of open types, and CEL takes such a call for one that
// costs nothing.
type estimator struct{}

var _ cost.ActualCostEstimator = estimator{}

// CallCost implements cost.ActualCostEstimator.
func (estimator) CallCost(function, overload string, args []ref.Val, result ref.Val) *uint64 {
	total := uint64(1)
	switch {
	case function == operators.Equals || function == operators.NotEquals:
		total += min(weight(args[0]), weight(args[1]))
	case function == operators.In || function == operators.OldIn:
		total += textCost(args[0]) + length(args[1])
	case overload != "":
		return nil // CEL's own models know it
	default:
		total += textCost(result)
		for _, a := range args {
			total += textCost(a)
		}
		if len(args) > 1 && (function == "matches" || strings.HasPrefix(function, "regex.")) {
			total += textCost(args[0]) * (1 + textCost(args[1])*bytesPerCost/4)
		}
	}
	return &total
}

// weight is what walking through a value costs.
func weight(value ref.Val) uint64 {
	total := uint64(1) + textCost(value)
	switch v := value.(type) { //nolint:exhaustive // the others hold nothing
	case traits.Lister:
		for it := v.Iterator(); it.HasNext() == types.True; {
			total += weight(it.Next())
		}
	case traits.Mapper:
		for it := v.Iterator(); it.HasNext() == types.True; {
			total += 1 + weight(v.Get(it.Next()))
		}
	}
	return total
}

func length(value ref.Val) uint64 {
	if sizer, ok := value.(traits.Sizer); ok {
		if size, ok := sizer.Size().(types.Int); ok && size > 0 {
			return uint64(size)
		}
	}
	return 0
}

func textCost(value ref.Val) uint64 {
	switch v := value.(type) { //nolint:exhaustive // the others are of one size
	case types.String:
		return uint64(len(v)) / bytesPerCost
	case decimal:
		return uint64(len(v)) / bytesPerCost
	}
	return 0
}
