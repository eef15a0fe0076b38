package expr

import (
	"slices"
	"strconv"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// Use is a place where an expression reads a variable.
type Use struct {
	Variable string
	// Path are the members that are selected by name, or by a constant, from there
	// on: args.order["id"] has order and id.
	Path []string
}

// Uses returns where the expression reads variables, in no order that means
// anything. A name that a macro binds (x in list.exists(x, …)) is one too.
func (x *Expression) Uses() []Use { return slices.Clone(x.uses) }

// Reads reports whether the expression reads a variable at all.
func (x *Expression) Reads(variable string) bool {
	return slices.ContainsFunc(x.uses, func(u Use) bool { return u.Variable == variable })
}

func usesOf(compiled *cel.Ast) []Use {
	var uses []Use
	root := ast.NavigateAST(compiled.NativeRep())
	for _, ident := range ast.MatchDescendants(root, ast.KindMatcher(ast.IdentKind)) {
		// A name that begins with a dot is the one outside of a macro that binds it.
		use := Use{Variable: strings.TrimPrefix(ident.AsIdent(), ".")}
		from := ident
		for {
			parent, ok := from.Parent()
			if !ok {
				break
			}
			step, ok := stepOf(parent, from)
			if !ok {
				break
			}
			use.Path, from = append(use.Path, step), parent
		}
		uses = append(uses, use)
	}
	return uses
}

// stepOf is the member of from that parent selects.
func stepOf(parent, from ast.NavigableExpr) (string, bool) {
	switch parent.Kind() { //nolint:exhaustive // the others select nothing
	case ast.SelectKind:
		return parent.AsSelect().FieldName(), true
	case ast.CallKind:
		call := parent.AsCall()
		switch call.FunctionName() {
		case operators.Index, operators.OptIndex, operators.OptSelect:
		default:
			return "", false
		}
		args := call.Args()
		if len(args) != 2 || args[0].ID() != from.ID() || args[1].Kind() != ast.LiteralKind {
			return "", false
		}
		switch v := args[1].AsLiteral().(type) { //nolint:exhaustive // no other constant selects
		case types.String:
			return string(v), true
		case types.Int:
			return strconv.FormatInt(int64(v), 10), true
		}
	}
	return "", false
}
