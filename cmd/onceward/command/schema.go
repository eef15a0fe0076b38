package command

import "github.com/onceward/onceward/actions/definition"

type schemaCmd struct {
	Kind string `arg:"" enum:"provider,action" help:"Kind of file: provider or action."`
}

func (*schemaCmd) Help() string {
	return `Example:
  onceward schema action > action.schema.json

Editors check a file against it when its first line is
  # yaml-language-server: $schema=action.schema.json`
}

// Run prints the JSON Schema.
func (c *schemaCmd) Run(s streams) error {
	text, err := definition.JSONSchema(c.Kind)
	if err != nil {
		return err
	}
	_, err = s.out.Write(text)
	return err
}
