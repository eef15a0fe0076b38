package declared

import (
	"errors"
	"slices"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/actions/expr"
)

// environments are what expressions of each kind see.
type environments struct {
	arguments *expr.Env // checks of arguments
	config    *expr.Env // URLs of a provider
	request   *expr.Env
	graphql   *expr.Env // the text of a GraphQL query
	search    *expr.Env // the request of a look-up
	answer    *expr.Env // to a write
	found     *expr.Env // the answer to a look-up
	item      *expr.Env // one object in it
	signed    *expr.Env // what an HMAC signs
	signature *expr.Env // the headers that carry it
	message   *expr.Env // a webhook message
	event     *expr.Env // one event in it
	simulated *expr.Env // answers in rules and examples
}

func newEnvironments() (*environments, error) {
	language, err := expr.NewLanguage()
	if err != nil {
		return nil, err
	}
	var errs []error
	with := func(more []string, variables ...string) *expr.Env {
		env, err := language.Env(slices.Concat(more, variables)...)
		errs = append(errs, err)
		return env
	}
	call := []string{"args", "operation", "tenant", "key", "config"}
	query := slices.Concat(call, []string{"reference", "first_sent", "last_sent"})
	answer := []string{"status", "header", "body", "text"}
	envs := &environments{
		arguments: with(nil, "args"),
		config:    with(nil, "config"),
		request:   with(call),
		graphql:   with(nil, "key", "config"),
		search:    with(query, "page"),
		answer:    with(answer, call...),
		found:     with(slices.Concat([]string{"page"}, answer), query...),
		item:      with(slices.Concat([]string{"item"}, answer), query...),
		signed:    with(nil, "method", "path", "query", "body", "body_sha256", "timestamp"),
		signature: with(nil, "signature", "timestamp", "config"),
		message:   with(nil, "body", "header", "config"),
		event:     with(nil, "event", "header", "config"),
		simulated: with(nil, "code", "message"),
	}
	return envs, errors.Join(errs...)
}

// callVars are what every expression about one call sees.
func callVars(call actions.Call, key string, config map[string]any) expr.Vars {
	return expr.Vars{
		"args":      call.Arguments.Value(),
		"operation": map[string]any{"id": call.OperationID},
		"tenant":    call.Tenant,
		"key":       key,
		"config":    config,
	}
}
