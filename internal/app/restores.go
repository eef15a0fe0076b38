package app

import (
	"context"
	"log/slog"

	"github.com/onceward/onceward/ledger/postgres"
)

// tellRestores says in the log that the ledger is being recovered, since new
// operations wait for a find or a person then, and reports whether it is.
func tellRestores(ctx context.Context, store *postgres.Store, log *slog.Logger) (recovering bool, err error) {
	inForce, err := store.Restores(ctx, true)
	if err != nil {
		return false, err
	}
	for _, r := range inForce {
		log.Warn("the ledger was restored, and the recovery has not ended: new operations are recorded in doubt and not sent (onceward restore status)",
			"lost_from", r.LostFrom, "lost_until", r.LostUntil, "begun_at", r.BegunAt, "cleared", len(r.Clearances))
	}
	return len(inForce) > 0, nil
}
