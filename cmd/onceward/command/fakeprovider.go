package command

import (
	"context"
	"fmt"
	"time"

	"github.com/onceward/onceward/fakeprovider"
)

type fakeproviderCmd struct {
	Listen        string        `default:"127.0.0.1:7082" help:"Address to listen on."`
	KeyWindow     time.Duration `default:"24h" help:"How long payments recognise an idempotency key."`
	SearchLag     time.Duration `default:"0s" help:"How long a new mail stays invisible to the search."`
	StoreFailures bool          `help:"Payments replay stored failures too."`
	IgnoreKeys    bool          `help:"Payments ignore idempotency keys."`
}

func (*fakeproviderCmd) Help() string {
	return "Example:\n  onceward fakeprovider --listen=127.0.0.1:7082\n  curl http://127.0.0.1:7082/_fake/\n\nThe second line says what faults it can play and how to count its effects.\nFor onceward serve --demo-provider-url: the token, in a file for --demo-provider-token-file, is " + fakeprovider.DefaultToken + "."
}

// Run serves until it is told to stop.
func (c *fakeproviderCmd) Run(ctx context.Context, s streams) error {
	server, err := fakeprovider.Start(fakeprovider.New(fakeprovider.Options{
		KeyWindow: c.KeyWindow, SearchLag: c.SearchLag, StoreFailures: c.StoreFailures, IgnoreKeys: c.IgnoreKeys,
	}), c.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "The fake provider listens on %s (token %s); %s/_fake/ says what it can do.\n", server.URL(), fakeprovider.DefaultToken, server.URL())
	<-ctx.Done()
	return server.Close()
}
