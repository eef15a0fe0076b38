package server

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/onceward/onceward/actions"
	"github.com/onceward/onceward/ledger"
	"github.com/onceward/onceward/policy"
	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

// Record is what the server needs of the audit record.
type Record interface {
	Events(ctx context.Context, tenant string, f ledger.EventFilter, after ledger.EventPosition, limit int) ([]ledger.AuditEvent, error)
}

// Page sizes of audit events, which are small and many.
const (
	defaultEventPage = 100
	maxEventPage     = 1000
)

// ListEvents returns the tenant's audit events, oldest operation first.
func (s *Server) ListEvents(ctx context.Context, req *oncewardv1.ListEventsRequest) (*oncewardv1.ListEventsResponse, error) {
	p := principalOf(ctx)
	if err := want(p, policy.Auditor, policy.Admin); err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	switch {
	case size == 0:
		size = defaultEventPage
	case size < 0 || size > maxEventPage:
		return nil, invalid(actions.Violation{Field: "page_size", Reason: actions.ReasonRange, Message: "wants 1 to 1000, or nothing for 100"})
	}
	filter, err := readEventFilter(req.GetFilter())
	if err != nil {
		return nil, err
	}
	bound := markOf(req.GetFilter())
	after, err := eventStart(req.GetPageToken(), bound)
	if err != nil {
		return nil, err
	}
	events, err := s.Ledger.Events(ctx, p.Tenant, filter, after, size+1)
	if err != nil {
		return nil, err
	}
	resp := &oncewardv1.ListEventsResponse{}
	if len(events) > size {
		events = events[:size]
		last := events[size-1]
		resp.NextPageToken = eventToken(ledger.EventPosition{OperationID: last.OperationID, Sequence: last.Sequence}, bound)
	}
	for _, e := range events {
		resp.Events = append(resp.Events, toEvent(e))
	}
	return resp, nil
}

// readEventFilter checks a filter and turns it into the ledger's.
func readEventFilter(f *oncewardv1.EventFilter) (ledger.EventFilter, error) {
	var bad []actions.Violation
	for field, text := range map[string]string{"filter.action_type": f.GetActionType(), "filter.actor": f.GetActor()} {
		if v, ok := checkName(field, text); !ok {
			bad = append(bad, v)
		}
	}
	if id := f.GetOperationId(); id != "" {
		if err := checkID("filter.operation_id", id); err != nil {
			return ledger.EventFilter{}, err
		}
	}
	filter := ledger.EventFilter{OperationID: f.GetOperationId(), ActionType: f.GetActionType(), Actor: f.GetActor(), DeniedOnly: f.GetDeniedOnly()}
	for field, t := range map[string]struct {
		from *timestamppb.Timestamp
		to   *time.Time
	}{"filter.recorded_after": {f.GetRecordedAfter(), &filter.RecordedAfter}, "filter.recorded_before": {f.GetRecordedBefore(), &filter.RecordedBefore}} {
		switch {
		case t.from == nil:
		case !t.from.IsValid():
			bad = append(bad, actions.Violation{Field: field, Reason: actions.ReasonRange, Message: "is not a time of the years 1 to 9999"})
		default:
			*t.to = t.from.AsTime()
		}
	}
	if len(bad) > 0 {
		return ledger.EventFilter{}, invalid(bad...)
	}
	return filter, nil
}

// eventToken is a page token: where the page ended, and a mark of the filter.
func eventToken(at ledger.EventPosition, mark string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.OperationID + "/" + strconv.FormatInt(at.Sequence, 10) + "/" + mark))
}

func eventStart(token, mark string) (ledger.EventPosition, error) {
	if token == "" {
		return ledger.EventPosition{}, nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.Split(string(decoded), "/")
	if err == nil && len(parts) == 3 && parts[2] == mark && checkID("page_token", parts[0]) == nil {
		if sequence, err := strconv.ParseInt(parts[1], 10, 64); err == nil {
			return ledger.EventPosition{OperationID: parts[0], Sequence: sequence}, nil
		}
	}
	return ledger.EventPosition{}, invalid(actions.Violation{Field: "page_token", Reason: actions.ReasonFormat, Message: "is not from a previous page with the same filter"})
}

func toEvent(e ledger.AuditEvent) *oncewardv1.AuditEvent {
	out := &oncewardv1.AuditEvent{
		OperationId: e.OperationID, Sequence: e.Sequence, At: toTime(e.At), Event: e.Event, FromState: toState(e.From), ToState: toState(e.To),
		Attempt: int32(e.Attempt), Actor: e.Actor, Detail: e.Detail, Outcome: e.Outcome, ProviderReference: e.Reference,
		Chain: hex.EncodeToString(e.Chain),
	}
	if e.ArgsHash != (ledger.Hash{}) {
		out.ArgumentsHash = hex.EncodeToString(e.ArgsHash[:])
	}
	if c := e.Context; c != nil {
		out.Context = &oncewardv1.EventContext{
			ActionType: c.ActionType, KeyHash: c.KeyHash, Run: setRun(new(oncewardv1.RunContext), &c.Run), Decision: c.Decision, Reason: c.Reason, Rule: c.Rule,
			PolicyVersion: c.PolicyVersion, Stage: toStage(c.Stage), Amount: c.Amount, Currency: c.Currency,
		}
	}
	return out
}

// markOf is a mark of a filter, for page tokens.
func markOf(filter proto.Message) string {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(filter)
	if err != nil {
		return "unmarkable"
	}
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:8])
}
