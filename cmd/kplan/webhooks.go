package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/interrupt"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/webhooks"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps/analyze"
	"github.com/kplan-dev/kplan/webhook"
	"github.com/kplan-dev/kplan/webhook/survey"
)

// The formats of kplan webhooks beside json and yaml.
const (
	formatTable data.Format = "table"
	formatWide  data.Format = "wide"
)

// webhooksOptions are the flags of kplan webhooks.
type webhooksOptions struct {
	*app
	names             []string
	selector, release string
	failing, watch    bool
	every             bool
	output            data.Format
	timeout           time.Duration
}

func newWebhooks(a *app) *cobra.Command {
	o := &webhooksOptions{app: a, output: formatTable}
	cmd := &cobra.Command{
		Use:     "webhooks [NAME…]",
		Aliases: []string{"webhook", "wh"},
		Short:   "Show the webhooks of a cluster, and why they cannot answer",
		Long: `Show all admission webhooks of a cluster, and the conversion webhooks of its CRDs: what they guard, whose they are, and how they stand.

LADDER has a sign for each rung that a webhook climbs until it admits objects:
  configured   its configuration exists
  trusted      its CA bundle parses and is in force
  routed       its Service exists and has the port
  backed       the Service has a ready endpoint
  serving      a call reached it; before one, a certificate that its pods mount can only speak against it
  admitting    a request through the API server got its answer
● + reached, ○ o not yet, ✗ x somebody has to change something, ? not known, - not needed (a webhook with a URL).

Listing calls no webhook, so serving and admitting are unknown here; 'kplan wait webhook' proves more.
The lowest-standing webhooks come first, and below the table is why they cannot answer. Webhooks of one configuration that are called
at one Service and stand alike share a row, which says how many they are; with --all, with a NAME and with -o wide each has its own.`,
		Example: `  kplan webhooks
  kplan webhooks --failing -o wide
  kplan webhooks cert-manager-webhook --watch
  kplan webhooks --release kof/operators -o json | jq '.webhooks[].lowest.reason'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.names = args
			return o.run(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.BoolVarP(&o.watch, "watch", "w", false, "show every change until ^C: the table anew on a terminal, else a line for each change")
	flags.BoolVar(&o.every, "all", false, "have a row for each webhook, also for those of one configuration and Service that stand alike")
	flags.BoolVar(&o.failing, "failing", false, "show only webhooks with a rung that is known not to be reached")
	flags.StringVarP(&o.selector, "selector", "l", "", "show only webhooks whose configuration has these labels, as for kubectl")
	flags.StringVar(&o.release, "release", "", "show only webhooks of this Helm release, as `[NAMESPACE/]NAME`")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Second, "how long the first reading may take; what was not read by then is unknown")
	addFormat(cmd, &o.output, "how to write them: table, wide, json or yaml", formatTable, formatWide, data.JSON, data.YAML)
	return cmd
}

func (o *webhooksOptions) check() error {
	switch {
	case o.watch && o.output == data.YAML:
		return usagef("--watch cannot write yaml, only table, wide and json")
	case o.timeout <= 0:
		return usagef("--timeout must be positive")
	}
	_, err := labels.Parse(o.selector)
	if err != nil {
		return usagef("--selector: %w", err)
	}
	return nil
}

func (o *webhooksOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	ctx, signals := interrupt.Context(ctx)
	defer signals.Release()
	view, err := analyze.Survey(ctx, o.flags, userAgent())
	if err != nil {
		return stopped(ctx, err)
	}
	defer view.Close()
	l := &listing{webhooksOptions: o, view: view, changes: make(chan struct{}, 1), noted: map[string]bool{}}
	l.following = view.Subscribe(survey.Target{Match: o.wants(), Conversions: true}, l.changed)
	if err := l.read(ctx); err != nil {
		return stopped(ctx, err)
	}
	if o.watch {
		return stopped(ctx, l.watch(ctx))
	}
	return l.show()
}

// stopped is err, or the signal that stopped the command, which needs no words.
func stopped(ctx context.Context, err error) error {
	if stop, ok := errors.AsType[*runner.Interrupted](context.Cause(ctx)); ok {
		return &shownError{stop}
	}
	return err
}

// wants tells which webhooks are asked for.
func (o *webhooksOptions) wants() func(webhook.Entry) bool {
	selector, _ := labels.Parse(o.selector) // it was checked
	return func(e webhook.Entry) bool {
		_, release, _ := strings.Cut(e.Owner.Release, "/")
		return selector.Matches(labels.Set(e.Labels)) &&
			(o.release == "" || o.release == e.Owner.Release || o.release == release) &&
			(len(o.names) == 0 || slices.Contains(o.names, e.Configuration) || slices.Contains(o.names, e.Name))
	}
}

// listing is what a command follows.
type listing struct {
	*webhooksOptions
	view      *survey.Survey
	following *survey.Subscription
	// changes is filled by the survey when something changed; never closed.
	changes chan struct{}
	noted   map[string]bool
	// partly says that not all was read in time.
	partly bool
}

// changed is called by the survey.
func (l *listing) changed() {
	select {
	case l.changes <- struct{}{}:
	default:
	}
}

// read waits until all was read that can be, and tells what cannot.
func (l *listing) read(ctx context.Context) error {
	late := time.After(l.timeout)
	for !l.following.Synced() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.changes:
			continue
		case <-late:
			l.partly = true
			l.note(fmt.Sprintf("not all was read within %s; what is missing is unknown", l.timeout))
		}
		break
	}
	if unread := l.view.Unreadable(); len(l.following.Statuses()) == 0 && len(unread) > 0 {
		return runner.WithHint(errors.New("webhooks cannot be read: "+strings.Join(unread, ", ")),
			"what is needed for it is in docs/reference/webhooks.md; check with: kubectl auth can-i list validatingwebhookconfigurations")
	}
	return nil
}

// note tells of something once.
func (l *listing) note(texts ...string) {
	for _, text := range texts {
		if !l.noted[text] {
			l.noted[text] = true
			fmt.Fprintf(l.stderr, "note: %s\n", words.Clean(text))
		}
	}
}

// few are the first of many texts.
func few(texts []string) []string {
	const most = 5
	if len(texts) <= most+1 {
		return texts
	}
	return append(slices.Clip(texts[:most]), fmt.Sprintf("and %d more; -o json lists all", len(texts)-most))
}

// all are the webhooks that are asked for, those that do not fail among them.
func (l *listing) all() []webhooks.Webhook { return webhooks.Of(l.following.Statuses()) }

// picked are the webhooks to show.
func (l *listing) picked() []webhooks.Webhook {
	return slices.DeleteFunc(l.all(), func(w webhooks.Webhook) bool { return l.failing && !w.Failing() })
}

// show writes them once.
func (l *listing) show() error {
	if missing := l.missing(); len(missing) > 0 {
		return fmt.Errorf("there is no webhook and no configuration named %s", strings.Join(missing, ", "))
	}
	l.note(few(l.view.Unreadable())...)
	if l.output == data.JSON || l.output == data.YAML {
		return l.print(l.output, struct {
			Webhooks []webhooks.Webhook `json:"webhooks"`
			Unread   []string           `json:"unread,omitempty"`
		}{l.picked(), l.view.Unreadable()})
	}
	all := l.all()
	if len(all) == 0 {
		fmt.Fprintln(l.stderr, "no webhooks found")
		return nil
	}
	return l.style().Table(l.stdout, all)
}

// missing are the names that nothing has.
func (l *listing) missing() []string {
	standings := l.following.Statuses()
	return slices.DeleteFunc(slices.Clone(l.names), func(name string) bool {
		return slices.ContainsFunc(standings, func(s survey.Status) bool { return name == s.Configuration || name == s.Name })
	})
}

// style is how to draw on stdout.
func (l *listing) style() webhooks.Style {
	out := tty.Unwrap(l.stdout)
	s := webhooks.Style{Colour: l.colour(out), ASCII: !tty.Unicode(), Wide: l.output == formatWide, Failing: l.failing, Now: time.Now()}
	s.Fold = !l.every && len(l.names) == 0
	s.Width, _, _ = tty.Size(out)
	return s
}
