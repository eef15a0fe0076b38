package policy

import (
	"fmt"
	"slices"
)

// CheckRoles says whether one credential may have these roles. Requesting,
// deciding about requests and configuring are kept apart: a credential has at
// most one of agent, reviewer and admin. Auditor only reads, and goes with each.
// That nobody decides about a request of his own is checked by actor besides
// ([MayDecide]), because somebody may have two credentials.
func CheckRoles(roles []Role) error {
	var acts []Role
	for _, role := range roles {
		switch role {
		case Agent, Reviewer, Admin:
			if !slices.Contains(acts, role) {
				acts = append(acts, role)
			}
		case Auditor:
		default:
			return fmt.Errorf("%q is no role: want agent, reviewer, auditor or admin", role)
		}
	}
	if len(acts) > 1 {
		return fmt.Errorf("the roles %s and %s are not for one credential: who requests cannot approve, and who approves cannot configure; make one for each", acts[0], acts[1])
	}
	return nil
}
