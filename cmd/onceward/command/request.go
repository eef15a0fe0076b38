package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	oncewardv1 "github.com/onceward/onceward/proto/onceward/v1"
)

type requestCmd struct {
	client
	ActionType   string        `arg:"" help:"Action type, as onceward actions lists them."`
	Arguments    string        `arg:"" help:"Arguments as a JSON object, @FILE, or - for standard input."`
	Key          string        `help:"Idempotency key."`
	RunID        string        `name:"run" help:"Id of the agent run."`
	Step         string        `help:"Id of the step."`
	Agent        string        `help:"Name of the agent."`
	Attempt      int32         `help:"The caller's own count of tries, from 1."`
	ToolCall     string        `help:"The model's id of the tool call."`
	Instance     string        `help:"The process that asks, another one after a restart."`
	Intent       string        `help:"Intent id."`
	Wait         time.Duration `default:"10s" help:"How long to hold the call, 0s to 1m."`
	Corrects     string        `help:"Operation whose arguments this corrects."`
	DistinctFrom string        `help:"Operation that this is meant to be a second one beside."`
	Preview      bool          `help:"Only say what would be done."`
}

func (*requestCmd) Help() string {
	return `Example:
  onceward request payments.refund.create '{"charge_id":"ch_42","amount":4900,"currency":"usd"}' --run=run_1 --step=refund

Repeating it is safe: the same key (here composed of run and step) is one effect.`
}

// Run sends the request and prints the answer.
func (c *requestCmd) Run(ctx context.Context, s streams) error {
	arguments, err := readText(s, c.Arguments)
	if err != nil {
		return err
	}
	ctx, conn, err := c.dial(ctx, asAgent)
	if err != nil {
		return err
	}
	defer conn.Close()
	req := &oncewardv1.RequestActionRequest{
		ActionType: c.ActionType, ArgumentsForm: &oncewardv1.RequestActionRequest_ArgumentsJson{ArgumentsJson: arguments},
		IdempotencyKey: c.Key, IntentId: c.Intent, Wait: durationpb.New(c.Wait),
		Run:                 &oncewardv1.RunContext{RunId: c.RunID, StepId: c.Step, Agent: c.Agent, Attempt: c.Attempt, ToolCallId: c.ToolCall, Instance: c.Instance},
		CorrectsOperationId: c.Corrects, DistinctFromOperationId: c.DistinctFrom,
	}
	actions := oncewardv1.NewActionServiceClient(conn)
	if c.Preview {
		resp, err := actions.PreviewAction(ctx, &oncewardv1.PreviewActionRequest{Request: req})
		if err != nil {
			return err
		}
		return c.print(s, resp, func(w io.Writer) {
			printPreview(w, resp)
		})
	}
	resp, err := actions.RequestAction(ctx, req)
	if err != nil {
		return err
	}
	return c.print(s, resp, func(w io.Writer) {
		if resp.GetOperation() != nil {
			printOperation(w, resp.GetOperation())
		}
		fmt.Fprintf(w, "answer     %s\n", lower(resp.GetDisposition().String(), "DISPOSITION_"))
		if seen := resp.GetObservation(); seen != nil {
			fmt.Fprintf(w, "observed   %s: %s\n", lower(seen.GetOutcome().String(), "OBSERVED_OUTCOME_"), seen.GetExplanation())
		}
		printDuplicate(w, resp.GetDuplicate())
		printNextStep(w, resp.GetNextStep())
	})
}

// readText returns a text that was given as itself, as @FILE, or as - for
// standard input.
func readText(s streams, given string) (string, error) {
	switch {
	case given == "-":
		data, err := io.ReadAll(s.in)
		return string(data), err
	case strings.HasPrefix(given, "@"):
		data, err := os.ReadFile(given[1:])
		return string(data), err
	default:
		return given, nil
	}
}
