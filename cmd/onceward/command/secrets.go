package command

import (
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/onceward/onceward/internal/app"
	"github.com/onceward/onceward/internal/secrets"
)

type secretsCmd struct {
	Create  secretsCreateCmd  `cmd:"" help:"Create a set of secrets in a new folder."`
	List    secretsListCmd    `cmd:"" help:"List the keys that are rotated."`
	Public  secretsPublicCmd  `cmd:"" help:"Print the public keys, for those who check what was signed."`
	Rotate  secretsRotateCmd  `cmd:"" help:"Make the next keys: known to all, used by nobody yet."`
	Promote secretsPromoteCmd `cmd:"" help:"Use the next keys from now on."`
	Retire  secretsRetireCmd  `cmd:"" help:"Remove an old key for ever."`
}

func (*secretsCmd) Help() string { return (*secretsCreateCmd)(nil).Help() }

type secretsCreateCmd struct {
	Dir string `arg:"" type:"path" help:"Folder for the secrets."`
}

func (*secretsCreateCmd) Help() string {
	return "Example:\n  onceward secrets create ./secrets\n\nKeep them as you keep the database: every replica needs the same set, for ever. A ledger refuses another one."
}

// Run creates the secrets.
func (c *secretsCreateCmd) Run(s streams) error {
	if err := secrets.Create(c.Dir); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "Secrets are in %s.\n", c.Dir)
	return nil
}

type secretsListCmd struct {
	Dir string `arg:"" type:"existingdir" help:"Folder with the secrets."`
}

func (*secretsListCmd) Help() string {
	return "Example:\n  onceward secrets list ./secrets\n\nThe secret of provider keys is not shown: it is never rotated."
}

// Run lists the keys without their secrets.
func (c *secretsListCmd) Run(s streams) error {
	list, err := secrets.List(c.Dir)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tFOR\tSTATE\tCREATED")
	signs := false
	for _, k := range list {
		created := "-"
		if !k.CreatedAt.IsZero() {
			created = k.CreatedAt.Format(time.RFC3339)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", k.ID, k.Kind, k.State, created)
		signs = signs || k.Kind == secrets.Signing
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !signs {
		fmt.Fprintf(s.err, "There is no signing key: nothing is signed. Make one: onceward secrets rotate %s --signing\n", c.Dir)
	}
	return nil
}

type secretsPublicCmd struct {
	Dir string `arg:"" type:"existingdir" help:"Folder with the secrets."`
}

func (*secretsPublicCmd) Help() string {
	return "Example:\n  onceward secrets public ./secrets > jwks.json\n\nIt is the JSON Web Key Set that onceward serve --http-listen serves at /.well-known/jwks.json."
}

// Run prints the public keys.
func (c *secretsPublicCmd) Run(s streams) error {
	loaded, err := secrets.Load(c.Dir)
	if err != nil {
		return err
	}
	keys := loaded.SigningKeys()
	if len(keys) == 0 {
		return fmt.Errorf("%s has no signing key: make one with onceward secrets rotate %s --signing", c.Dir, c.Dir)
	}
	set, err := app.PublicKeys(loaded)
	if err != nil {
		return err
	}
	fmt.Fprintln(s.out, string(set))
	return nil
}

// kinds says which keys a command is about: both, unless one is named.
type kinds struct {
	Sealing bool `help:"Only the key that seals stored arguments."`
	Signing bool `help:"Only the key that signs operation tokens and receipts."`
}

func (k kinds) list() []secrets.Kind {
	switch {
	case k.Sealing == k.Signing:
		return []secrets.Kind{secrets.Sealing, secrets.Signing}
	case k.Sealing:
		return []secrets.Kind{secrets.Sealing}
	default:
		return []secrets.Kind{secrets.Signing}
	}
}

type secretsRotateCmd struct {
	Dir string `arg:"" type:"existingdir" help:"Folder with the secrets."`
	kinds
}

func (*secretsRotateCmd) Help() string {
	return `Example:
  onceward secrets rotate ./secrets
  # give the folder to every replica, wait until each logs "secrets changed: taken over",
  # and for signing keys 10 minutes more, for the copies that services have
  onceward secrets promote ./secrets
  # and give it to every replica again

A key that is used before all replicas know it makes operations that some of them
cannot work on. The first signing key of a folder is used at once.`
}

// Run makes the next keys.
func (c *secretsRotateCmd) Run(s streams) error {
	return eachKind(c.list(), func(kind secrets.Kind) error {
		k, err := secrets.Add(c.Dir, kind)
		if err != nil {
			return err
		}
		if k.State == secrets.Primary {
			fmt.Fprintf(s.out, "%s is the %s key. Give the folder to every replica.\n", k.ID, kind)
			return nil
		}
		fmt.Fprintf(s.out, "%s is the next %s key. Give the folder to every replica, then: onceward secrets promote %s\n", k.ID, kind, c.Dir)
		return nil
	})
}

type secretsPromoteCmd struct {
	Dir string `arg:"" type:"existingdir" help:"Folder with the secrets."`
	kinds
}

func (*secretsPromoteCmd) Help() string {
	return "Example:\n  onceward secrets promote ./secrets\n\nEvery replica must know the next keys before: see onceward secrets rotate --help."
}

// Run promotes the next keys. A kind without one is passed over, unless it was
// asked for.
func (c *secretsPromoteCmd) Run(s streams) error {
	asked, promoted := c.list(), 0
	err := eachKind(asked, func(kind secrets.Kind) error {
		k, err := secrets.Promote(c.Dir, kind)
		if errors.Is(err, secrets.ErrNoNext) && len(asked) > 1 {
			return nil
		}
		if err != nil {
			return err
		}
		promoted++
		fmt.Fprintf(s.out, "%s is the %s key from now on. Give the folder to every replica.\n", k.ID, kind)
		return nil
	})
	if err == nil && promoted == 0 {
		err = secrets.ErrNoNext
	}
	return err
}

func eachKind(list []secrets.Kind, do func(secrets.Kind) error) error {
	var errs []error
	for _, kind := range list {
		errs = append(errs, do(kind))
	}
	return errors.Join(errs...)
}

type secretsRetireCmd struct {
	Dir string `arg:"" type:"existingdir" help:"Folder with the secrets."`
	Key string `arg:"" help:"Key, as secrets list shows it."`
	Yes bool   `help:"Do it: what is lost is known."`
}

func (*secretsRetireCmd) Help() string {
	return "Example:\n  onceward secrets retire ./secrets sign-3f9a11c2d4e5f607 --yes\n\nWithout --yes it says what would be lost and changes nothing. There is no way back."
}

// Run removes a key, once it was said what that means.
func (c *secretsRetireCmd) Run(s streams) error {
	if !c.Yes {
		return c.warn(s)
	}
	k, err := secrets.Retire(c.Dir, c.Key)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s is gone. Give the folder to every replica.\n", k.ID)
	return nil
}

func (c *secretsRetireCmd) warn(s streams) error {
	list, err := secrets.List(c.Dir)
	if err != nil {
		return err
	}
	for _, k := range list {
		if k.ID != c.Key {
			continue
		}
		if k.State == secrets.Primary {
			return secrets.ErrInUse
		}
		fmt.Fprintln(s.err, losses(k.Kind))
		return fmt.Errorf("nothing was changed: add --yes to remove %s for ever", k.ID)
	}
	return secrets.ErrNoSuchKey
}

// losses says what nobody can do any more without a key.
func losses(kind secrets.Kind) string {
	if kind == secrets.Sealing {
		return "Arguments that it sealed can never be opened again: an operation that is still open and began under it cannot be sent, replayed\n" +
			"or looked up any more, and goes to a person. Retire it when no open operation is older than its successor's promotion\n" +
			"(onceward list --state=pending, --state=unknown, --state=needs_review)."
	}
	return "Receipts that it signed are no longer verified by the keys that Onceward serves: keep a copy of /.well-known/jwks.json for them.\n" +
		"Operation tokens that it signed are refused; they live for minutes."
}
