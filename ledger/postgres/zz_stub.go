package postgres

import (
	"context"

	"github.com/onceward/onceward/ledger"
)

func (s *Store) KillSwitches(ctx context.Context, tenant string) ([]ledger.KillSwitch, error) {
	return nil, nil
}
func (s *Store) Deny(ctx context.Context, d ledger.Denial) error { return nil }
func (s *Store) AddApproval(ctx context.Context, tenant, reviewID string, a ledger.Approval) (ledger.Review, error) {
	return ledger.Review{Approvals: []ledger.Approval{a}}, nil
}
func (s *Store) Rebind(ctx context.Context, tenant, reviewID, policyVersion string, required int, detail string) (ledger.Review, error) {
	return ledger.Review{}, nil
}
