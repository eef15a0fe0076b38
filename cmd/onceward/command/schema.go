package command

import (
	"strings"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/policy/policyfile"
)

type schemaCmd struct {
	Kind string `arg:"" enum:"provider,action,policy,policy_test" help:"Kind of file: provider, action, policy or policy_test."`
}

func (*schemaCmd) Help() string {
	return `Example:
  onceward schema action > action.schema.json
  onceward schema policy > policy.schema.json

Editors check a file against it when its first line is
  # yaml-language-server: $schema=action.schema.json`
}

// Run prints the JSON Schema.
func (c *schemaCmd) Run(s streams) error {
	read := definition.JSONSchema
	if strings.HasPrefix(c.Kind, policyfile.KindPolicy) {
		read = policyfile.JSONSchema
	}
	text, err := read(c.Kind)
	if err != nil {
		return err
	}
	_, err = s.out.Write(text)
	return err
}
