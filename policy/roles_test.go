package policy

import (
	"strings"
	"testing"
)

func TestCheckRoles(t *testing.T) {
	for text, fault := range map[string]string{
		"":                 "",
		"agent":            "",
		"reviewer auditor": "",
		"auditor admin":    "",
		"admin auditor":    "",
		"agent reviewer":   "agent and reviewer",
		"reviewer admin":   "reviewer and admin",
		"admin agent":      "admin and agent",
		"auditor owner":    `"owner" is no role`,
		"Agent":            `"Agent" is no role`,
	} {
		var roles []Role
		for role := range strings.FieldsSeq(text) {
			roles = append(roles, Role(role))
		}
		err := CheckRoles(roles)
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v, want %q", text, err, fault)
		}
	}
}
