package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	namespace    = "bench"
	taskQueue    = "actions"
	workflowName = "action"
	activityName = "perform"
)

// actions performs keyed actions on a Temporal server: it is its client and its
// worker.
type actions struct {
	client client.Client
	worker worker.Worker
}

// newActions registers the namespace and starts the worker.
func newActions(ctx context.Context, address string, regular bool, p *provider, logger log.Logger) (*actions, error) {
	if err := registerNamespace(ctx, address, logger); err != nil {
		return nil, fmt.Errorf("registering a namespace: %w", err)
	}
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Namespace: namespace, Logger: logger})
	if err != nil {
		return nil, err
	}
	// The SDK's fixed default of two pollers would be what is measured.
	w := worker.New(c, taskQueue, worker.Options{
		WorkflowTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
		ActivityTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{}),
	})
	perform := func(_ context.Context, key string) (string, error) { return p.perform(key), nil }
	w.RegisterWorkflowWithOptions(actionWorkflow(perform, regular), workflow.RegisterOptions{Name: workflowName})
	w.RegisterActivityWithOptions(perform, activity.RegisterOptions{Name: activityName})
	if err := w.Start(); err != nil {
		c.Close()
		return nil, err
	}
	return &actions{client: c, worker: w}, nil
}

// actionWorkflow is a workflow of one step.
func actionWorkflow(perform func(context.Context, string) (string, error), regular bool) func(workflow.Context, string) (string, error) {
	const timeout = 30 * time.Second
	return func(ctx workflow.Context, key string) (receipt string, err error) {
		if regular {
			ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: timeout})
			err = workflow.ExecuteActivity(ctx, activityName, key).Get(ctx, &receipt)
		} else {
			ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: timeout})
			err = workflow.ExecuteLocalActivity(ctx, perform, key).Get(ctx, &receipt)
		}
		return receipt, err
	}
}

// perform starts the workflow whose id is the key, or finds the one that has
// it, finished or not, and waits for its result.
func (a *actions) perform(ctx context.Context, key string) (receipt string, err error) {
	run, err := a.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:                    key,
		TaskQueue:             taskQueue,
		EnableEagerStart:      true, // the worker is here: the first task comes with the answer
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
	}, workflowName, key)
	if err != nil {
		return "", err
	}
	err = run.Get(ctx, &receipt)
	return receipt, err
}

func (a *actions) close() {
	a.worker.Stop()
	a.client.Close()
}

// registerNamespace registers the namespace and waits until the server knows
// it, which takes a refresh of its cache.
func registerNamespace(ctx context.Context, address string, logger log.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	c, err := client.NewNamespaceClient(client.Options{HostPort: address, Logger: logger})
	if err != nil {
		return err
	}
	defer c.Close()
	err = c.Register(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        namespace,
		WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	if err != nil {
		return err
	}
	for {
		_, err := c.Describe(ctx, namespace)
		var unknown *serviceerror.NamespaceNotFound
		if !errors.As(err, &unknown) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}
