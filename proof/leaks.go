package proof

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/jackc/pgx/v5"

	_ "embed"
)

//go:embed leaks.sql
var findLeaks string

// lookForLeaks looks for the subject's secrets in everything that the ledger has
// on record about its operations.
func (r *run) lookForLeaks(ctx context.Context, s *sample, walks []*walk) error {
	if len(s.Secrets) == 0 {
		return nil
	}
	conn, err := pgx.Connect(ctx, r.OwnerURL)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	leaking := map[string]bool{}
	for _, secret := range s.Secrets {
		if secret == "" {
			continue
		}
		rows, err := conn.Query(ctx, findLeaks, s.spec.Type, secret, hex.EncodeToString([]byte(secret)))
		if err != nil {
			return fmt.Errorf("looking for leaks: %w", err)
		}
		tenants, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("looking for leaks: %w", err)
		}
		for _, tenant := range tenants {
			leaking[tenant] = true
		}
	}
	for _, w := range walks {
		if leaking[w.tenant] && !w.report.Verdict.Failed() {
			w.report.judge(verdictf(Leak, "a credential is on record in the ledger"))
		}
	}
	return nil
}
