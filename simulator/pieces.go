package simulator

import (
	"regexp"
	"slices"
	"strings"
)

// piece is a part of a template: text as it is, or an expression.
type piece struct {
	text       string
	expression bool
}

// pieces takes a template apart, as its author would read it.
func pieces(template string) []piece {
	var out []piece
	literal := ""
	for template != "" {
		if rest, ok := strings.CutPrefix(template, "$${"); ok {
			literal, template = literal+"${", rest
			continue
		}
		rest, ok := strings.CutPrefix(template, "${")
		end := -1
		if ok {
			end = closingBrace(rest)
		}
		if end < 0 {
			literal, template = literal+template[:1], template[1:]
			continue
		}
		if literal != "" {
			out = append(out, piece{text: literal})
		}
		out = append(out, piece{text: strings.TrimSpace(rest[:end]), expression: true})
		literal, template = "", rest[end+1:]
	}
	if literal != "" {
		out = append(out, piece{text: literal})
	}
	return out
}

// closingBrace is where an expression ends; braces in texts do not count.
func closingBrace(s string) int {
	open, quote := 1, rune(0)
	escaped := false
	for at, r := range s {
		switch {
		case escaped:
			escaped = false
		case quote != 0 && r == '\\':
			escaped = true
		case quote != 0:
			if r == quote {
				quote = 0
			}
		case r == '"' || r == '\'':
			quote = r
		case r == '{':
			open++
		case r == '}':
			if open--; open == 0 {
				return at
			}
		}
	}
	return -1
}

// isLiteral says that a template is the same for every request.
func isLiteral(template string) bool {
	return !slices.ContainsFunc(pieces(template), func(p piece) bool { return p.expression })
}

// keyIn returns a function that reads our key out of what a template became,
// and nil where the template does not hold "${key}" as it is.
func keyIn(template string) func(rendered string) string {
	var pattern strings.Builder
	pattern.WriteString(`(?s)^`)
	has := false
	for _, p := range pieces(strings.TrimSpace(template)) {
		switch {
		case !p.expression:
			pattern.WriteString(regexp.QuoteMeta(oneSpace(p.text)))
		case p.text == "key" && !has:
			has = true
			pattern.WriteString(`([0-9A-Za-z._:~+/=-]+)`)
		default:
			pattern.WriteString(`.*?`)
		}
	}
	if !has {
		return nil
	}
	pattern.WriteString(`$`)
	re, err := regexp.Compile(pattern.String())
	if err != nil {
		return nil // longer than a pattern can be
	}
	return func(rendered string) string {
		found := re.FindStringSubmatch(oneSpace(strings.TrimSpace(rendered)))
		if found == nil {
			return ""
		}
		return found[1]
	}
}

// fits says whether a text can be what a template became.
func fits(template, rendered string) bool {
	var pattern strings.Builder
	pattern.WriteString(`(?s)^`)
	for _, p := range pieces(strings.TrimSpace(template)) {
		if p.expression {
			pattern.WriteString(`.*?`)
		} else {
			pattern.WriteString(regexp.QuoteMeta(oneSpace(p.text)))
		}
	}
	pattern.WriteString(`$`)
	re, err := regexp.Compile(pattern.String())
	return err == nil && re.MatchString(oneSpace(strings.TrimSpace(rendered)))
}

// oneSpace makes one space of white space, which means nothing in GraphQL.
func oneSpace(text string) string {
	if text == "" {
		return ""
	}
	joined := strings.Join(strings.Fields(text), " ")
	if strings.TrimLeft(text, " \t\r\n") != text {
		joined = " " + joined
	}
	if joined != " " && strings.TrimRight(text, " \t\r\n") != text {
		joined += " "
	}
	return joined
}
