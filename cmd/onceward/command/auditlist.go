package command

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

type auditListCmd struct {
	client
	Operation  string `help:"Only events of this operation."`
	ActionType string `help:"Only events of operations, and refused requests, of this action type."`
	Actor      string `help:"Only events by this actor."`
	Denied     bool   `help:"Only refused requests."`
	Since      span   `placeholder:"TIME" help:"Only of operations recorded in this time, as in 24h or 7d."`
	Limit      int32  `default:"100" help:"At most this many, 1 to 1000."`
	PageToken  string `help:"Of a page before, as its last line shows."`
}

func (*auditListCmd) Help() string {
	return `Example:
  onceward audit list --since=24h
  onceward audit list --operation=0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e
  onceward audit list --denied --json

Oldest operation first. With --json an event is a line, and a page token goes to standard error. It wants a key with the
role auditor or admin.`
}

// Run lists events.
func (c *auditListCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asReviewer) // dev's is an auditor, too
	if err != nil {
		return err
	}
	defer conn.Close()
	filter := &oncewardv1.EventFilter{OperationId: c.Operation, ActionType: c.ActionType, Actor: c.Actor, DeniedOnly: c.Denied}
	if c.Since > 0 {
		filter.RecordedAfter = timestamppb.New(time.Now().Add(-time.Duration(c.Since)))
	}
	resp, err := oncewardv1.NewAuditServiceClient(conn).ListEvents(ctx, &oncewardv1.ListEventsRequest{PageSize: c.Limit, PageToken: c.PageToken, Filter: filter})
	if err != nil {
		return err
	}
	more := "More: --page-token=" + resp.GetNextPageToken()
	if c.JSON {
		for _, e := range resp.GetEvents() {
			line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(e)
			if err != nil {
				return err
			}
			// protojson changes its spaces at random.
			compact := &strings.Builder{}
			encoder := json.NewEncoder(compact)
			encoder.SetEscapeHTML(false)
			if err := encoder.Encode(json.RawMessage(line)); err != nil {
				return err
			}
			if _, err := fmt.Fprint(s.out, compact.String()); err != nil {
				return err
			}
		}
		if resp.GetNextPageToken() != "" {
			fmt.Fprintln(s.err, more)
		}
		return nil
	}
	if len(resp.GetEvents()) == 0 {
		fmt.Fprintln(s.out, "No events match.")
		return nil
	}
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AT\tOPERATION\t#\tEVENT\tSTATE\tACTOR\tWHAT")
	for _, e := range resp.GetEvents() {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s\t%s\n", e.GetAt().AsTime().Format(watchTime), e.GetOperationId(), e.GetSequence(), e.GetEvent(),
			strings.TrimPrefix(lower(e.GetToState().String(), "OPERATION_STATE_"), "unspecified"), e.GetActor(), eventText(e))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if resp.GetNextPageToken() != "" {
		fmt.Fprintln(s.out, more)
	}
	return nil
}

// eventText is what an event says, in one line.
func eventText(e *oncewardv1.AuditEvent) string {
	var facts []string
	for _, fact := range []string{e.GetContext().GetActionType(), e.GetContext().GetReason(), e.GetProviderReference(), e.GetDetail()} {
		if fact != "" {
			facts = append(facts, fact)
		}
	}
	if rule := e.GetContext().GetRule(); rule != "" {
		facts = append(facts, "rule "+rule)
	}
	return strings.Join(strings.Fields(strings.Join(facts, ", ")), " ")
}
