package server

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// summed is a ledger that has counted something.
type summed struct {
	Ledger
	tallies []ledger.Tally
	err     error

	tenant, actionType string // as asked
	from, to           time.Time
}

func (s *summed) Tallies(_ context.Context, tenant string, from, to time.Time, actionType string) ([]ledger.Tally, error) {
	s.tenant, s.from, s.to, s.actionType = tenant, from, to, actionType
	return s.tallies, s.err
}

// as is a context of a principal with these roles.
func as(ctx context.Context, roles ...policy.Role) context.Context {
	return &caller{Context: ctx, principal: policy.Principal{Tenant: "acme", Actor: "rita", Roles: roles}}
}

func TestGetStatsSumsUp(t *testing.T) {
	t.Parallel()
	duplicate := func(actionType, cause string, stated bool, currency string, count int64, amount string) ledger.Tally {
		return ledger.Tally{ActionType: actionType, What: "duplicate", Cause: cause, Stated: stated, Currency: currency, Count: count, Amount: amount}
	}
	book := &summed{tallies: []ledger.Tally{
		{ActionType: "mail", What: "executed", Count: 90, Amount: "0"},
		{ActionType: "mail", What: "refused", Cause: "POLICY_DENIED", Count: 4, Amount: "0"},
		{ActionType: "mail", What: "refused", Cause: "INTENT_OPEN", Count: 1, Amount: "0"},
		duplicate("mail", "crash_replay", false, "", 10, "0"),
		{ActionType: "refund", What: "executed", Count: 80, Amount: "0"},
		duplicate("refund", "", false, "EUR", 5, "0.1"),
		duplicate("refund", "model_retry", false, "EUR", 6, "0.2"),
		duplicate("refund", "model_retry", true, "EUR", 4, "12345678901234567890.000000000001"),
		duplicate("refund", "model_retry", true, "USD", 5, "49.5"),
		{ActionType: "", What: "refused", Cause: "POLICY_DENIED", Count: 2, Amount: "0"},
	}}
	s := &Server{Options: Options{Ledger: book, Log: quiet()}}
	got, err := s.GetStats(as(t.Context(), policy.Reviewer), &oncewardv1.GetStatsRequest{ActionType: "x"})
	if err != nil {
		t.Fatal(err)
	}
	got.From, got.To = nil, nil
	money := []*oncewardv1.Money{{Amount: "12345678901234567890.300000000001", Currency: "EUR"}, {Amount: "49.5", Currency: "USD"}}
	want := &oncewardv1.GetStatsResponse{
		Total: &oncewardv1.Counts{Tracked: 200, Executed: 170, DuplicatesPrevented: 30, DuplicateRate: 0.15, Prevented: money, Refused: 7},
		ByActionType: []*oncewardv1.ActionTypeCounts{
			{ActionType: "refund", Counts: &oncewardv1.Counts{Tracked: 100, Executed: 80, DuplicatesPrevented: 20, DuplicateRate: 0.2, Prevented: money}},
			{ActionType: "mail", Counts: &oncewardv1.Counts{Tracked: 100, Executed: 90, DuplicatesPrevented: 10, DuplicateRate: 0.1, Refused: 5}},
			{ActionType: "", Counts: &oncewardv1.Counts{Refused: 2}},
		},
		ByCause: []*oncewardv1.CauseCounts{
			{Cause: oncewardv1.RetryCause_RETRY_CAUSE_MODEL_RETRY, Duplicates: 15, Stated: 9},
			{Cause: oncewardv1.RetryCause_RETRY_CAUSE_CRASH_REPLAY, Duplicates: 10},
			{Cause: oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED, Duplicates: 5},
		},
	}
	if !proto.Equal(got, want) {
		t.Errorf("statistics are\n%s\nwant\n%s", prototext.Format(got), prototext.Format(want))
	}
	if book.tenant != "acme" || book.actionType != "x" {
		t.Errorf("asked for tenant %q and action type %q", book.tenant, book.actionType)
	}
	book.tallies = nil
	if got, err = s.GetStats(as(t.Context(), policy.Admin), &oncewardv1.GetStatsRequest{}); err != nil || got.GetTotal().GetDuplicateRate() != 0 {
		t.Errorf("of nothing: %s, %v", got, err)
	}
}

func TestGetStatsSpan(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // whose clock begins at a full hour
		time.Sleep(90 * time.Minute)
		now := time.Now().UTC()
		book := &summed{}
		s := &Server{Options: Options{Ledger: book, Log: quiet()}}
		at := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(d)) }
		const half = 30 * time.Minute
		for name, tt := range map[string]struct {
			from, to         *timestamppb.Timestamp
			wantFrom, wantTo time.Duration // from now
			wrong            string        // field
		}{
			"by default":         {nil, nil, -24*time.Hour - half, half, ""},
			"since":              {at(-time.Hour), nil, -time.Hour - half, half, ""},
			"until":              {nil, at(-time.Hour), -25*time.Hour - half, -half, ""},
			"full hours":         {at(-2*time.Hour - half), at(-half), -2*time.Hour - half, -half, ""},
			"one instant":        {at(0), at(0), -half, half, ""},
			"400 days":           {at(-400 * 24 * time.Hour), nil, -400*24*time.Hour - half, half, ""},
			"longer":             {at(-400*24*time.Hour - half - 1), nil, 0, 0, "from"},
			"backwards":          {at(0), at(-2 * time.Hour), 0, 0, "from"},
			"nothing":            {at(-half), at(-half), 0, 0, "from"},
			"no time":            {&timestamppb.Timestamp{Nanos: -1}, nil, 0, 0, "from"},
			"no time at the end": {nil, &timestamppb.Timestamp{Seconds: 1 << 60}, 0, 0, "to"},
		} {
			got, err := s.GetStats(as(t.Context(), policy.Auditor), &oncewardv1.GetStatsRequest{From: tt.from, To: tt.to})
			if tt.wrong != "" {
				if r := toRefusal(t.Context(), err); err == nil || r.code != codes.InvalidArgument || len(r.violations) != 1 || r.violations[0].Field != tt.wrong {
					t.Errorf("%s: %v, want %s to be wrong", name, err, tt.wrong)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if from, to := book.from.Sub(now), book.to.Sub(now); from != tt.wantFrom || to != tt.wantTo || !got.GetFrom().AsTime().Equal(book.from) || !got.GetTo().AsTime().Equal(book.to) {
				t.Errorf("%s: from %s to %s of now, want %s to %s; told %s to %s", name, from, to, tt.wantFrom, tt.wantTo, got.GetFrom(), got.GetTo())
			}
		}
	})
}

func TestGetStatsRefuses(t *testing.T) {
	t.Parallel()
	book := &summed{}
	s := &Server{Options: Options{Ledger: book, Log: quiet()}}
	for _, role := range []policy.Role{policy.Agent, policy.Reviewer, policy.Auditor, policy.Admin} {
		_, err := s.GetStats(as(t.Context(), role), &oncewardv1.GetStatsRequest{})
		if allowed := slices.Contains([]policy.Role{policy.Reviewer, policy.Auditor, policy.Admin}, role); allowed != (err == nil) {
			t.Errorf("%s: %v", role, err)
		}
	}
	if _, err := s.GetStats(t.Context(), &oncewardv1.GetStatsRequest{}); err == nil {
		t.Error("nobody is told")
	}
	for name, actionType := range map[string]string{"long": strings.Repeat("x", 256), "of two lines": "a\nb"} {
		_, err := s.GetStats(as(t.Context(), policy.Admin), &oncewardv1.GetStatsRequest{ActionType: actionType})
		if r := toRefusal(t.Context(), err); err == nil || r.code != codes.InvalidArgument {
			t.Errorf("an action type that is %s: %v", name, err)
		}
	}
	book.err = ledger.ErrUnavailable
	_, err := s.GetStats(as(t.Context(), policy.Admin), &oncewardv1.GetStatsRequest{})
	if r := toRefusal(t.Context(), err); err == nil || r.reason != reasonLedgerUnavailable {
		t.Errorf("without a ledger: %v", err)
	}
}

// Names in tallies are those of the contract, and come back as what they were.
func TestNamesOfCauses(t *testing.T) {
	t.Parallel()
	for number := range oncewardv1.RetryCause_name {
		cause := oncewardv1.RetryCause(number)
		if name := nameOfCause(cause); causeNamed(name) != cause || name != strings.ToLower(name) {
			t.Errorf("%s is named %q, which is %s", cause, name, causeNamed(name))
		}
	}
	if got := causeNamed("of a later version"); got != oncewardv1.RetryCause_RETRY_CAUSE_UNSPECIFIED {
		t.Errorf("an unknown name is %s", got)
	}
}
