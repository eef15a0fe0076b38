package policy

import (
	"slices"

	"github.com/onceward/onceward/policy/policyfile"
)

// grant lets actors request action types.
type grant struct {
	id     string
	types  names
	actors names // empty: whoever has a role
	roles  []Role
	agents names // empty: whatever agent
}

func (c *compiler) grant(field string, g policyfile.Grant) grant {
	c.id(field, g.ID)
	c.patterns(field+".action_types", g.ActionTypes, checkType)
	c.patterns(field+".actors", g.Actors, checkName)
	c.patterns(field+".agents", g.Agents, checkName)
	if len(g.Actors) == 0 && len(g.Roles) == 0 {
		c.bad(field, "want actors, roles or both: who may request these? (actors: [\"*\"] is everyone with the role agent)")
	}
	out := grant{id: g.ID, types: namesOf(g.ActionTypes), actors: namesOf(g.Actors), agents: namesOf(g.Agents)}
	for i, role := range g.Roles {
		if err := CheckRoles([]Role{Role(role)}); err != nil {
			c.bad(at(field+".roles", i), "%v", err) // no credential has it: the grant would let nobody through
		}
		out.roles = append(out.roles, Role(role))
	}
	return out
}

// fits reports whether a principal may request an action type, whatever the agent.
func (g grant) fits(who Principal, actionType string) bool {
	return g.types.has(actionType) &&
		(g.actors.empty() || g.actors.has(who.Actor)) &&
		(len(g.roles) == 0 || slices.ContainsFunc(g.roles, func(r Role) bool { return who.Has(r) }))
}

// fitsAgent reports whether the agent that a request names is one of the grant's.
func (g grant) fitsAgent(agent string) bool { return g.agents.empty() || g.agents.has(agent) }
