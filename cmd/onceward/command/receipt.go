package command

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/internal/signing"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

type receiptCmd struct {
	Get    receiptGetCmd    `cmd:"" help:"Print the signed receipt of an operation."`
	Verify receiptVerifyCmd `cmd:"" help:"Check a signed receipt, and print what it says."`
}

func (*receiptCmd) Help() string { return (*receiptVerifyCmd)(nil).Help() }

type receiptGetCmd struct {
	client
	ID string `arg:"" help:"Operation id."`
}

func (*receiptGetCmd) Help() string {
	return "Example:\n  onceward receipt get 0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e > receipt.jws\n\nIt is a JWS in compact form (EdDSA): one line of text that can be mailed, stored and checked anywhere."
}

// Run prints the signed receipt.
func (c *receiptGetCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asAgent)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := oncewardv1.NewActionServiceClient(conn).GetOperation(ctx, &oncewardv1.GetOperationRequest{
		Selector: &oncewardv1.GetOperationRequest_OperationId{OperationId: c.ID},
	})
	if err != nil {
		return err
	}
	if resp.GetSignedReceipt() == "" {
		if resp.GetOperation().GetReceipt() != nil {
			return errors.New("the server signs nothing: its secrets have no signing key (onceward secrets rotate DIR --signing)")
		}
		return fmt.Errorf("operation %s has no receipt: onceward get %s says how it stands", c.ID, c.ID)
	}
	return c.print(s, resp, func(w io.Writer) { fmt.Fprintln(w, resp.GetSignedReceipt()) })
}

type receiptVerifyCmd struct {
	File   string `arg:"" help:"File with the signed receipt; - is standard input."`
	Keys   string `required:"" placeholder:"FILE|URL" help:"Public keys of the installation: a file with a JSON Web Key Set, or its URL (https, or http on this machine)."`
	Issuer string `help:"Refuse a receipt of any other installation."`
	JSON   bool   `name:"json" help:"Print what it says as JSON."`
}

func (*receiptVerifyCmd) Help() string {
	return `Example:
  onceward receipt verify receipt.jws --keys=jwks.json
  onceward receipt verify - --keys=https://onceward.example.com:7090/.well-known/jwks.json < receipt.jws

With a file of keys nobody is asked. It exits with 1 and the reason when the receipt
is not what one of these keys signed.`
}

// Run checks the receipt.
func (c *receiptVerifyCmd) Run(ctx context.Context, s streams) error {
	text, err := c.read(s)
	if err != nil {
		return err
	}
	keys, err := c.keys(ctx)
	if err != nil {
		return err
	}
	receipt, err := signing.VerifyReceipt(strings.TrimSpace(text), c.Issuer, keys)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if c.JSON {
		out, err := json.MarshalIndent(receipt, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintln(s.out, string(out))
		return nil
	}
	return printReceipt(s.out, receipt)
}

// maxReceiptFile is more than a signed receipt can be.
const maxReceiptFile = 1 << 20

func (c *receiptVerifyCmd) read(s streams) (string, error) {
	from := s.in
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return "", err
		}
		defer func() { _ = f.Close() }() // it was only read
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxReceiptFile))
	return string(text), err
}

// keys reads them from a file or a URL.
func (c *receiptVerifyCmd) keys(ctx context.Context) (map[string]ed25519.PublicKey, error) {
	read := os.ReadFile
	if strings.HasPrefix(c.Keys, "https://") || strings.HasPrefix(c.Keys, "http://") {
		read = func(address string) ([]byte, error) { return download(ctx, address) }
	}
	text, err := read(c.Keys)
	if err != nil {
		return nil, fmt.Errorf("--keys: %w", err)
	}
	keys, err := signing.ParseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("--keys: %s: %w", c.Keys, err)
	}
	return keys, nil
}

// download gets a small public document. Who could change it on its way could
// sign receipts of their own.
func download(ctx context.Context, address string) ([]byte, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && !isLoopback(u.Hostname()) {
		return nil, fmt.Errorf("%s: want https, or http on this machine", u.Redacted())
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: HTTP %d", u.Redacted(), resp.StatusCode)
	}
	return io.ReadAll(io.LimitReader(resp.Body, maxReceiptFile))
}

func printReceipt(out io.Writer, r signing.Receipt) error {
	fmt.Fprintln(out, "The signature is good. It says:")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, line := range [][2]string{
		{"issuer", r.Issuer}, {"tenant", r.Tenant}, {"operation", r.OperationID}, {"action type", r.ActionType},
		{"state", r.State}, {"confirmed at", r.ConfirmedAt.Format(time.RFC3339)}, {"attempts", fmt.Sprint(r.Attempts)},
		{"reference", r.ProviderReference}, {"key sha256", r.KeyHash}, {"arguments sha256", r.ArgumentsHash},
		{"receipt sha256", r.ReceiptHash},
	} {
		fmt.Fprintf(w, "  %s\t%s\n", line[0], line[1])
	}
	if r.Incident {
		fmt.Fprintln(w, "  INCIDENT\tthe provider named a second effect of this operation")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out, r.Indented())
	return nil
}
