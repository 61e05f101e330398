package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/webhook/probe"
)

func newWait(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait",
		Short: "Wait for something in the cluster, without a plan",
		Long: `Wait until something in the cluster is as it should be, as a step of a plan does, but without a plan.

Exit codes: 0 it is, 1 it cannot become so, 2 bad usage, 4 timed out, 130 and 143 stopped by SIGINT and SIGTERM.`,
		Example: `  kplan wait webhook --release external-secrets -n external-secrets
  kplan wait webhook -f store.yaml --stable 3 --timeout 2m`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newWaitWebhook(a))
	return cmd
}

// waitWebhookOptions are the flags of wait webhook: a webhook step, and how it
// is run.
type waitWebhookOptions struct {
	runOptions
	spec   plan.Webhook
	canary plan.Canary
	mutate []string
	limit  time.Duration
}

func newWaitWebhook(a *app) *cobra.Command {
	o := &waitWebhookOptions{runOptions: runOptions{app: a, parallel: 1, inputs: &load.Options{}}}
	cmd := &cobra.Command{
		Use:   "webhook",
		Short: "Wait until webhooks answer through the API server",
		Long: `Wait until admission webhooks, and conversion webhooks of custom resources, answer through the API server.

Exactly one of --release, --configuration, --service, --selector, --filename and --all says which are meant. Where there is none
yet (but with --all) it is waited for.
Their configuration, certificate, Service and endpoints are watched; then dry runs show whether they answer, and nothing is persisted.
All webhook configurations must be listable. Conversion webhooks are "unproven" where CRDs may not be listed; those are not
read for --configuration, nor for --filename with built-in kinds only.

A dry run proves a webhook when it denies an object, or when an object is admitted that cannot be without its answer.
With failurePolicy Ignore admission proves nothing: such a webhook is told as "unproven", which is no failure, unless
a canary shows its answer: an object that it must deny (--deny), or change (--mutate). Unproven, and no failure, is also one
whose side effects forbid dry runs, or which no object that can be made up is certain to be sent to.
It is a failure when rights are missing to ask a webhook whose failure fails requests.

Progress goes to stderr; with -o a summary goes to stdout.

Exit codes: 0 they answer, 1 a canary is answered otherwise than expected, rights are missing, or the cluster cannot be used, 2 bad usage,
4 timed out, 130 and 143 stopped by SIGINT and SIGTERM.`,
		Example: `  kplan wait webhook --release external-secrets -n external-secrets
  kplan wait webhook --service cert-manager/cert-manager-webhook --stable 3
  kplan wait webhook -f store.yaml -f 'pull-secrets/*.yaml' --timeout 2m
  kplan wait webhook --configuration policy --accept good-pod.yaml --deny privileged-pod.yaml
  kplan wait webhook -l app.kubernetes.io/name=injector --mutate 'pod.yaml=size(object.spec.containers) > size(original.spec.containers)'
  kplan wait webhook --all --progress quiet -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.wait(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&o.spec.Release, "release", "", "the webhooks of this Helm release, in the namespace of -n")
	flags.StringVar(&o.spec.Configuration, "configuration", "", "the webhooks of the webhook configuration of this name")
	flags.StringVar(&o.spec.Service, "service", "", "the webhooks that are called at this Service, as `namespace/name`")
	flags.StringVarP(&o.spec.Selector, "selector", "l", "", "the webhooks of configurations with these labels")
	flags.StringArrayVarP(&o.spec.Files, "filename", "f", nil, "the webhooks that the objects in this `file` would be sent to; a path or glob, may be repeated")
	flags.BoolVar(&o.spec.All, "all", false, "every webhook of the cluster whose failure fails requests")
	flags.StringArrayVar(&o.canary.Accept, "accept", nil, "a `file` of objects that must be admitted; may be repeated")
	flags.StringArrayVar(&o.canary.Deny, "deny", nil, "a `file` of objects that must be denied by one of the webhooks; may be repeated")
	flags.StringArrayVar(&o.mutate, "mutate", nil, "`file=expression`: objects that must be changed, so that this CEL expression over object, as it\n"+
		"was admitted, and original, as it is in the file, becomes true; may be repeated")
	flags.IntVar(&o.spec.Stable, "stable", 1, "how many answers in a row are wanted, each over a connection of its own")
	flags.DurationVar(&o.limit, "timeout", 5*time.Minute, "how long to wait")
	addProgress(cmd, &o.progress)
	addFormat(cmd, &o.output, "write a summary to stdout, as json or yaml", data.JSON, data.YAML)
	return cmd
}

// wait runs a plan of one step.
func (o *waitWebhookOptions) wait(ctx context.Context) error {
	if _, err := o.check(); err != nil {
		return err
	}
	dir, err := os.Getwd()
	if err != nil {
		return fmt.Errorf("finding the current folder: %w", err)
	}
	p := &plan.Plan{APIVersion: plan.APIVersion, Kind: plan.PlanKind, Metadata: plan.Metadata{Name: "wait"}, Dir: dir}
	if err := o.checkSpec(dir); err != nil {
		return err
	}
	limit := plan.Duration(o.limit)
	p.Steps = []plan.Step{{
		Name: "webhook", Dir: dir, Timeout: &limit, Webhooks: &plan.Webhooks{HoldTimeout: &limit}, Webhook: &o.spec,
	}}
	return o.runPlan(ctx, p)
}

// checkSpec reads the flags into the step, whose paths are relative to a folder; what is wrong in them is bad usage.
func (o *waitWebhookOptions) checkSpec(dir string) error {
	if err := o.checkTarget(); err != nil {
		return err
	}
	switch {
	case o.spec.Stable < 1:
		return usagef("--stable must be at least 1, not %d", o.spec.Stable)
	case o.limit <= 0:
		return usagef("--timeout must be more than 0")
	}
	for _, m := range o.mutate {
		file, expect, ok := strings.Cut(m, "=")
		if !ok || file == "" || expect == "" {
			return &usageError{err: fmt.Errorf("--mutate %q is not FILE=EXPRESSION", m), hint: `such as --mutate 'pod.yaml=object.metadata.labels["made"] == "yes"'`}
		}
		if _, err := probe.Compile(expect); err != nil {
			return usagef("--mutate: the expression for %s: %w", file, err)
		}
		o.canary.Mutate = append(o.canary.Mutate, plan.Mutation{File: file, Expect: expect})
	}
	files := slices.Concat(o.spec.Files, o.canary.Accept, o.canary.Deny)
	for _, m := range o.canary.Mutate {
		files = append(files, m.File)
	}
	if _, err := (plan.Step{Dir: dir}).Files(files); err != nil {
		return &usageError{err: err}
	}
	if len(o.canary.Accept)+len(o.canary.Deny)+len(o.canary.Mutate) > 0 {
		o.spec.Canary = &o.canary
	}
	return nil
}

// checkTarget wants the webhooks to be said in one way.
func (o *waitWebhookOptions) checkTarget() error {
	var given []string
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"--release", o.spec.Release != ""},
		{"--configuration", o.spec.Configuration != ""},
		{"--service", o.spec.Service != ""},
		{"--selector", o.spec.Selector != ""},
		{"--filename", len(o.spec.Files) > 0},
		{"--all", o.spec.All},
	} {
		if flag.set {
			given = append(given, flag.name)
		}
	}
	switch {
	case len(given) == 0:
		return &usageError{
			err:  fmt.Errorf("it is not said which webhooks are meant"),
			hint: "give --release, --configuration, --service, --selector, --filename or --all",
		}
	case len(given) > 1:
		return usagef("only one of %s can say which webhooks are meant", strings.Join(given, " and "))
	}
	if namespace, name, ok := strings.Cut(o.spec.Service, "/"); o.spec.Service != "" && (!ok || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return usagef("--service %q is not NAMESPACE/NAME", o.spec.Service)
	}
	if _, err := labels.Parse(o.spec.Selector); err != nil {
		return usagef("--selector %q: %w", o.spec.Selector, err)
	}
	return nil
}
