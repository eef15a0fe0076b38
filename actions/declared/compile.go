package declared

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/onceward/onceward/actions/expr"
)

// Problem is one thing that is wrong with a definition.
type Problem struct {
	Field string // path in its file, as [definition.Set.Fault] takes it
	Text  string // what is wrong and what is wanted
}

// InvalidError is everything that is wrong with one definition.
type InvalidError struct {
	Name     string // of the provider or the action type
	Problems []Problem
}

// Error returns all problems in one line.
func (e *InvalidError) Error() string {
	var b strings.Builder
	b.WriteString(e.Name)
	for i, p := range e.Problems {
		b.WriteString([]string{": ", "; "}[min(i, 1)])
		if p.Field != "" {
			b.WriteString(p.Field + ": ")
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// compiler compiles one definition and collects what is wrong with it.
type compiler struct {
	envs     *environments
	problems []Problem
}

func (c *compiler) bad(field, format string, args ...any) {
	c.problems = append(c.problems, Problem{field, fmt.Sprintf(format, args...)})
}

// elsewhere compiles what belongs to another file, where it is looked at too.
func (c *compiler) elsewhere() *compiler { return &compiler{envs: c.envs} }

func (c *compiler) err(name string) error {
	if len(c.problems) == 0 {
		return nil
	}
	return &InvalidError{name, c.problems}
}

// expression compiles an expression; nil where there is none.
func (c *compiler) expression(env *expr.Env, field, text string) *expr.Expression {
	if text == "" {
		return nil
	}
	x, err := env.Expression(text)
	if err != nil {
		c.bad(field, "%v", err)
		return nil
	}
	return x
}

func (c *compiler) template(env *expr.Env, field, text string) *expr.Template {
	t, err := env.Template(text)
	if err != nil {
		c.bad(field, "%v", err)
		return nil
	}
	return t
}

func (c *compiler) tree(env *expr.Env, field string, value any) *expr.Tree {
	t, err := env.Tree(value)
	var at *expr.TreeError
	switch {
	case errors.As(err, &at) && at.Path != "":
		c.bad(strings.TrimSuffix(field+"."+at.Path, "."), "%v", at.Err)
	case err != nil:
		c.bad(field, "%v", err)
	}
	return t
}

// member is the path of a member of a field.
func member(field, name string) string {
	if name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == "" {
		return strings.TrimPrefix(field+"."+name, ".")
	}
	return field + "[" + strconv.Quote(name) + "]"
}

// element is the path of an item of a list.
func element(field string, i int) string { return fmt.Sprintf("%s[%d]", field, i) }
