package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

type getCmd struct {
	client
	ID  string `arg:"" optional:"" help:"Operation id."`
	Key string `help:"Idempotency key, instead of an id."`
}

func (*getCmd) Help() string {
	return "Example:\n  onceward get 0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e\n  onceward get --key='tenant:acme|action:payments.refund.create|run:run_1|step:refund'"
}

// Run shows the operation.
func (c *getCmd) Run(ctx context.Context, s streams) error {
	if (c.ID == "") == (c.Key == "") {
		return fmt.Errorf("%w: give an operation id or --key", errUsage)
	}
	ctx, conn, err := c.dial(ctx, asAgent)
	if err != nil {
		return err
	}
	defer conn.Close()
	req := &oncewardv1.GetOperationRequest{Selector: &oncewardv1.GetOperationRequest_OperationId{OperationId: c.ID}}
	if c.Key != "" {
		req.Selector = &oncewardv1.GetOperationRequest_IdempotencyKey{IdempotencyKey: c.Key}
	}
	resp, err := oncewardv1.NewActionServiceClient(conn).GetOperation(ctx, req)
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) {
		printOperation(w, resp.GetOperation())
		printNextStep(w, resp.GetNextStep())
	})
}

type listCmd struct {
	client
	State      []string `enum:"pending,running,succeeded,unknown,failed,needs_review" help:"Only these states; can be repeated."`
	ActionType string   `help:"Only this action type."`
	RunID      string   `name:"run" help:"Only this run."`
	Since      span     `placeholder:"TIME" help:"Only operations recorded in this time, as in 24h or 7d."`
	Limit      int32    `default:"50" help:"At most this many, 1 to 200."`
	PageToken  string   `help:"Of a page before, as its last line shows."`
}

func (*listCmd) Help() string {
	return "Example:\n  onceward list --state=unknown --state=needs_review --since=24h"
}

// Run lists operations.
func (c *listCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asAgent)
	if err != nil {
		return err
	}
	defer conn.Close()
	filter := &oncewardv1.OperationFilter{ActionType: c.ActionType, RunId: c.RunID}
	for _, state := range c.State {
		value := oncewardv1.OperationState_value["OPERATION_STATE_"+strings.ToUpper(state)]
		filter.States = append(filter.States, oncewardv1.OperationState(value))
	}
	if c.Since > 0 {
		filter.CreatedAfter = timestamppb.New(time.Now().Add(-time.Duration(c.Since)))
	}
	resp, err := oncewardv1.NewActionServiceClient(conn).ListOperations(ctx, &oncewardv1.ListOperationsRequest{
		PageSize: c.Limit, PageToken: c.PageToken, Filter: filter,
	})
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) {
		if len(resp.GetOperations()) == 0 {
			fmt.Fprintln(w, "No operations match. To request an action: onceward request --help")
			return
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "RECORDED\tOPERATION\tACTION\tSTATE\tREFERENCE\tKEY")
		for _, op := range resp.GetOperations() {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", op.GetCreatedAt().AsTime().Format(time.RFC3339), op.GetId(), op.GetActionType(),
				lower(op.GetState().String(), "OPERATION_STATE_"), op.GetProviderReference(), op.GetIdempotencyKey())
		}
		_ = table.Flush() // it writes to w, whose errors no line here checks
		if token := resp.GetNextPageToken(); token != "" {
			fmt.Fprintf(w, "More: --page-token=%s\n", token)
		}
	})
}

// watchTime is RFC 3339 with milliseconds, which line up.
const watchTime = "2006-01-02T15:04:05.000Z07:00"

type watchCmd struct {
	client
	ID string `arg:"" help:"Operation id."`
}

func (*watchCmd) Help() string {
	return "Example:\n  onceward watch 0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e"
}

// Run prints the operation at each change.
func (c *watchCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asAgent)
	if err != nil {
		return err
	}
	defer conn.Close()
	stream, err := oncewardv1.NewActionServiceClient(conn).WatchOperation(ctx, &oncewardv1.WatchOperationRequest{OperationId: c.ID})
	if err != nil {
		return err
	}
	for {
		resp, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		err = c.print(s, resp, func(w io.Writer) {
			op := resp.GetOperation()
			facts := []string{lower(op.GetState().String(), "OPERATION_STATE_"), "effect " + lower(op.GetEffect().String(), "EFFECT_")}
			if n := len(op.GetAttempts()); n > 0 {
				facts = append(facts, fmt.Sprintf("attempt %d", n))
			}
			if reference := op.GetProviderReference(); reference != "" {
				facts = append(facts, reference)
			}
			fmt.Fprintf(w, "%s  %s\n", op.GetUpdatedAt().AsTime().Format(watchTime), strings.Join(facts, ", "))
		})
		if err != nil {
			return err
		}
	}
}

type cancelCmd struct {
	client
	ID   string `arg:"" help:"Operation id."`
	Note string `help:"Why."`
}

func (*cancelCmd) Help() string {
	return "Example:\n  onceward cancel 0199f6f0-7c1e-7b1a-9d63-4f0a1b2c3d4e --note='customer withdrew'"
}

// Run cancels the operation.
func (c *cancelCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asAgent)
	if err != nil {
		return err
	}
	defer conn.Close()
	resp, err := oncewardv1.NewActionServiceClient(conn).CancelOperation(ctx, &oncewardv1.CancelOperationRequest{OperationId: c.ID, Note: c.Note})
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) { printOperation(w, resp.GetOperation()) })
}

// printGoals writes what budgets and intents look at, where there is any.
func printGoals(w io.Writer, t *oncewardv1.ActionType) {
	var lines []string
	if s := t.GetSpending(); s.GetAmount() != "" {
		lines = append(lines, fmt.Sprintf("spends: %s, in %s", s.GetAmount(), s.GetCurrency()))
	}
	if to := t.GetSpending().GetCounterparty(); to != "" {
		lines = append(lines, "concerns: "+to)
	}
	for _, in := range t.GetIntents() {
		parts := make([]string, len(in.GetParts()))
		for i, p := range in.GetParts() {
			parts[i] = p.GetName() + " from " + p.GetFrom()
		}
		line := fmt.Sprintf("intent %s: %s", in.GetName(), strings.Join(parts, ", "))
		if in.GetQuiet() != nil {
			line += fmt.Sprintf(" (quiet for %s)", in.GetQuiet().AsDuration())
		}
		lines = append(lines, line)
	}
	if hidden := t.GetSensitiveArguments(); len(hidden) > 0 {
		lines = append(lines, "sensitive: "+strings.Join(hidden, ", "))
	}
	for _, line := range lines {
		fmt.Fprintln(w, strings.Join(strings.Fields(line), " ")) // expressions may have several lines
	}
	if len(lines) > 0 {
		fmt.Fprintln(w)
	}
}

type actionsCmd struct {
	client
	Name string `arg:"" optional:"" help:"Show this action type with its schema."`
}

func (*actionsCmd) Help() string {
	return "Example:\n  onceward actions\n  onceward actions payments.refund.create"
}

// Run lists the action types, or shows one.
func (c *actionsCmd) Run(ctx context.Context, s streams) error {
	ctx, conn, err := c.dial(ctx, asAgent)
	if err != nil {
		return err
	}
	defer conn.Close()
	catalog := oncewardv1.NewCatalogServiceClient(conn)
	if c.Name != "" {
		resp, err := catalog.GetActionType(ctx, &oncewardv1.GetActionTypeRequest{Name: c.Name})
		if err != nil {
			return err
		}
		return c.print(s, resp, func(w io.Writer) {
			t := resp.GetActionType()
			fmt.Fprintf(w, "%s (version %s, owner %s, risk %s)\n%s\n\n", t.GetName(), t.GetVersion(), t.GetOwner(), lower(t.GetRisk().String(), "RISK_"), t.GetDescription())
			printGoals(w, t)
			fmt.Fprintf(w, "%s\n", t.GetArgumentsSchemaJson())
		})
	}
	resp, err := catalog.ListActionTypes(ctx, &oncewardv1.ListActionTypesRequest{})
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "ACTION TYPE\tRISK\tPROVIDER\tDESCRIPTION")
		for _, t := range resp.GetActionTypes() {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.GetName(), lower(t.GetRisk().String(), "RISK_"), t.GetContract().GetProvider(), t.GetDescription())
		}
		_ = table.Flush() // as above
	})
}
