package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/onceward/onceward/actions/definition"
	"github.com/onceward/onceward/fakeprovider"
	"github.com/onceward/onceward/simulator"
)

type simulateCmd struct {
	Names      []string      `arg:"" help:"Files and folders with one provider and its actions, or a name of the catalogue."`
	Listen     string        `default:"127.0.0.1:7081" help:"Address to listen on (loopback; port 0 takes a free one)."`
	LookupLag  time.Duration `default:"0s" help:"How long new objects stay invisible to look-ups that lag. Default: half of their settle time."`
	WebhookURL string        `name:"webhook-url" placeholder:"URL" help:"Where POST /_fake/webhooks sends signed events to: http://127.0.0.1:PORT/v1/webhooks/TENANT/PROVIDER of onceward serve --webhooks-listen."`

	// load reads one provider and its action types; nil is loadSimulated.
	load func(names []string) (*definition.Provider, []*definition.Action, error) `kong:"-"`
}

func (*simulateCmd) Help() string {
	return `Example:
  onceward simulate stripe
  onceward simulate ./onceward/parcelkit

It plays the provider as its contract says: keys, windows, errors, look-ups, credentials. It
misbehaves on request and counts its effects, as onceward fakeprovider does. The credentials that it
takes are made up. It runs until it is interrupted, and keeps nothing.`
}

// Run serves until it is told to stop.
func (c *simulateCmd) Run(ctx context.Context, s streams) error {
	if err := loopbackOnly(c.Listen); err != nil {
		return err
	}
	if c.LookupLag < 0 {
		return fmt.Errorf("%w: --lookup-lag cannot be negative", errUsage)
	}
	load := c.load
	if load == nil {
		load = loadSimulated
	}
	p, acts, err := load(c.Names)
	if err != nil {
		return faulty(s, err)
	}
	fake, err := simulator.New(p, acts, simulator.Options{LookupLag: c.LookupLag, WebhookURL: c.WebhookURL})
	if err != nil {
		return faulty(s, err)
	}
	server, err := fakeprovider.Start(fake, c.Listen)
	if err != nil {
		return fmt.Errorf("%w (choose another address with --listen)", err)
	}
	if err := printSimulation(s.out, server.URL(), p, acts); err != nil {
		return errors.Join(err, server.Close())
	}
	<-ctx.Done()
	return server.Close()
}

// loopbackOnly refuses other addresses: the control API asks for no credential.
func loopbackOnly(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%w: --listen=%s: want an address such as 127.0.0.1:7081", errUsage, address)
	}
	if !isLoopback(host) {
		return fmt.Errorf("%w: --listen=%s: a simulated provider listens on loopback only, because anybody who reaches it can script it", errUsage, address)
	}
	return nil
}

// loadSimulated reads an entry of the catalogue, or files.
func loadSimulated(names []string) (*definition.Provider, []*definition.Action, error) {
	set, err := loadDefinitions(names)
	if err != nil {
		return nil, nil, err
	}
	if err := checkDefinitions(set); err != nil {
		return nil, nil, err
	}
	if len(set.Providers) != 1 {
		all := strings.Join(slices.Sorted(maps.Keys(set.Providers)), ", ")
		return nil, nil, fmt.Errorf("%w: one provider can be simulated at a time, and here are %d (%s)", errUsage, len(set.Providers), all)
	}
	acts := slices.SortedFunc(maps.Values(set.Actions), func(a, b *definition.Action) int { return cmp.Compare(a.Type, b.Type) })
	return slices.Collect(maps.Values(set.Providers))[0], acts, nil
}

// printSimulation says what can be done with a simulated provider.
func printSimulation(w io.Writer, address string, p *definition.Provider, acts []*definition.Action) error {
	fmt.Fprintf(w, "%s is simulated on %s (contract version %s).\n\n", cmp.Or(p.Title, p.Name), address, p.Version)
	fmt.Fprintln(w, "Credentials (made up; they are good here and nowhere else):")
	shown := map[definition.Secret]bool{}
	secrets := p.Secrets()
	for _, field := range slices.Sorted(maps.Keys(secrets)) {
		if ref := secrets[field]; !shown[ref] {
			shown[ref] = true
			fmt.Fprintf(w, "  %s%s=%s\n", ref.Env, ref.File, simulator.Secret(ref)) // one of the two is set
		}
	}
	if len(shown) == 0 {
		fmt.Fprintln(w, "  none are needed")
	}
	fmt.Fprintln(w)
	if o := oauth2Of(p); o != nil {
		fmt.Fprintf(w, "An access token, for what follows:\n  %s\n\n", tokenCurl(address, o))
	}
	for i, a := range acts {
		line, err := exampleCurl(address, p, a, sampleCall(i+1))
		if err != nil {
			return fmt.Errorf("%s: %w", a.Type, err)
		}
		fmt.Fprintf(w, "%s:\n  %s\n\n", a.Type, line)
	}
	fmt.Fprintf(w, "The next write is applied, and its answer lost; then what the provider holds:\n")
	fmt.Fprintf(w, "  curl -s %s/_fake/faults -d '{\"faults\":[\"drop_answer_after_applying\"]}'\n", address)
	fmt.Fprintf(w, "  curl -s %s/_fake/effects\n\n", address)
	if p.Webhooks != nil {
		fmt.Fprintf(w, "A signed webhook about the first of these writes, to --webhook-url; make the event what the contract's rules look for:\n")
		fmt.Fprintf(w, "  curl -s %s/_fake/webhooks -d '{\"operation_id\":\"%s\",\"event\":{\"id\":\"${uuid}\",\"data\":\"${object}\"}}'\n\n", address, sampleCall(1).OperationID)
	}
	_, err := fmt.Fprintf(w, "All that it can do: curl -s %s/_fake/\nStop with Ctrl-C.\n", address)
	return err
}
