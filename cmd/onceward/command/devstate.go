package command

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/onceward/onceward/internal/apikey"
)

// devState is what dev keeps beside its database: demo credentials, readable by
// their owner only. The client commands use them when no key is given.
type devState struct {
	DatabasePassword string `json:"database_password"`
	AgentKey         string `json:"agent_key"`
	ReviewerKey      string `json:"reviewer_key"`
	OtherAgentKey    string `json:"other_agent_key"`
	AdminKey         string `json:"admin_key"`
	// Address is where the last dev listened.
	Address string `json:"address,omitempty"`
}

type demoKey struct {
	text, actor string
	roles       []string
}

func (d devState) demoKeys() []demoKey {
	return []demoKey{
		{d.AgentKey, "demo-planner", []string{"agent"}},
		{d.ReviewerKey, "demo-reviewer", []string{"reviewer", "auditor"}},
		{d.OtherAgentKey, "demo-planner", []string{"agent"}},
		{d.AdminKey, "demo-admin", []string{"admin"}},
	}
}

func devStateFile(dir string) string { return filepath.Join(dir, "dev.json") }

// readDevState reads the state of a dev folder; fs.ErrNotExist when there is
// none.
func readDevState(dir string) (devState, error) {
	var state devState
	data, err := os.ReadFile(devStateFile(dir))
	if err != nil {
		return state, err
	}
	if err := json.Unmarshal(data, &state); err != nil {
		return state, fmt.Errorf("%s: %w", devStateFile(dir), err)
	}
	return state, nil
}

func loadDevState(dir string) (devState, error) {
	state, err := readDevState(dir)
	if err == nil && state.AdminKey == "" { // from before there was one
		state.AdminKey = apikey.New(demoTenant).Text()
		return state, state.write(dir)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return state, err
	}
	state = devState{
		DatabasePassword: rand.Text(),
		AgentKey:         apikey.New(demoTenant).Text(),
		ReviewerKey:      apikey.New(demoTenant).Text(),
		OtherAgentKey:    apikey.New(otherTenant).Text(),
		AdminKey:         apikey.New(demoTenant).Text(),
	}
	return state, state.write(dir)
}

// write replaces the file as a whole, so that a reader never sees half of it.
func (d devState) write(dir string) error {
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	next := devStateFile(dir) + ".new"
	if err := os.WriteFile(next, append(data, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(next, devStateFile(dir))
}
