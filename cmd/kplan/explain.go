package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/tty"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/words"
	"github.com/kplan-dev/kplan/doctor/explain"
	"github.com/kplan-dev/kplan/runner"
)

// explainOptions are the flags of kplan explain.
type explainOptions struct {
	*app
	file    string
	offline bool
	output  data.Format
	timeout time.Duration
}

func newExplain(a *app) *cobra.Command {
	o := &explainOptions{app: a, output: formatText}
	cmd := &cobra.Command{
		Use:   "explain [TEXT… | -]",
		Short: "Explain a raw error of Helm, kubectl, Flux, Argo CD, Pulumi or a log",
		Long: `Explain an error: what failed, its class, the likely causes in order, and which command shows more.

The text is an argument, a file, or stdin; a whole log is fine, of which the last errors are explained. It is understood by its words alone.
When it is about a webhook, and the cluster of the kubeconfig can be reached, its ladder is read there as well: the lowest rung
that is missing, and why. --offline leaves that out. Nothing is written and no webhook is called.
Of the text only names and reasons are repeated, without what looks like a secret.

CLASS says what comes of doing the same once more:
  race           it passes later, when what it waits for is up
  overloaded     it may pass later
  unavailable    it may pass later, when the server can be reached
  deleting       it passes when the deletion has ended
  denied         it is denied again: a webhook or policy has judged the object
  misconfigured, missing, conflict, forbidden, invalid, exhausted
                 it fails again until somebody changes something
  failed, timeout
                 it fails again until its cause is found

Exit codes: 0 explained, 1 nothing in the text is known, 2 bad usage.`,
		Example: `  kplan explain 'Internal error occurred: failed calling webhook "v.example.io": … connection refused'
  helm upgrade --install app ./chart 2>&1 | kplan explain
  kubectl logs deploy/operator | kplan explain --offline
  kplan explain -f install.log -o json | jq -r '.explanations[].class'`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := o.text(args)
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), text)
		},
	}
	flags := cmd.Flags()
	flags.StringVarP(&o.file, "file", "f", "", "read the error, or a log, from this `file`; - is stdin")
	flags.BoolVar(&o.offline, "offline", false, "explain by the text alone: ask no cluster")
	flags.DurationVar(&o.timeout, "timeout", 3*time.Second, "how long to look at the cluster")
	addFormat(cmd, &o.output, "how to write it: text, json or yaml", formatText, data.JSON, data.YAML)
	return cmd
}

// text is what is to be explained.
func (o *explainOptions) text(args []string) (string, error) {
	stdin := o.file == "-" || len(args) == 1 && args[0] == "-"
	switch {
	case o.timeout <= 0:
		return "", usagef("--timeout must be positive")
	case o.file != "" && len(args) > 0:
		return "", usagef("the error is given twice: as an argument, and by --file")
	case stdin, o.file == "" && len(args) == 0 && !tty.Is(o.stdin):
		return endOf(o.stdin)
	case o.file != "":
		f, err := os.Open(o.file)
		if err != nil {
			return "", &usageError{err: err}
		}
		defer f.Close()
		return endOf(f)
	case len(args) == 0:
		return "", &usageError{err: errors.New("there is no error to explain"), hint: "give it as an argument, by --file, or through a pipe"}
	}
	return strings.Join(args, " "), nil
}

// endOf reads all, and keeps as much of the end as is looked at.
func endOf(r io.Reader) (string, error) {
	var kept []byte
	chunk := make([]byte, 64<<10)
	for {
		n, err := r.Read(chunk)
		kept = append(kept, chunk[:n]...)
		if over := len(kept) - 2*explain.MaxText; over > 0 {
			kept = append(kept[:0], kept[len(kept)-explain.MaxText-1:]...)
		}
		if err == io.EOF {
			return string(kept), nil
		}
		if err != nil {
			return "", fmt.Errorf("reading the error: %w", err)
		}
	}
}

// explained is one error with how its webhook stands in the cluster.
type explained struct {
	explain.Explanation
	Live []liveWebhook `json:"live,omitempty"`
}

func (o *explainOptions) run(ctx context.Context, text string) error {
	var all []explained
	for _, e := range explain.Text(text) {
		all = append(all, explained{Explanation: e})
	}
	if !o.offline {
		if err := o.look(ctx, all); err != nil {
			return err
		}
	}
	if o.output != formatText {
		if err := o.print(o.output, map[string]any{"explanations": append([]explained{}, all...)}); err != nil {
			return err
		}
	} else {
		o.write(all)
	}
	if len(all) == 0 {
		return runner.WithHint(errors.New("nothing in this text is known"), unknownHint)
	}
	return nil
}

const unknownHint = "give the whole error, with what stands around it; of a failed step also the events (kubectl get events) and the logs of its pods; " +
	"kplan webhooks --failing shows webhooks that cannot answer"

// margin is what stands before the second line of anything that is said of an error.
const margin = "           "

// write writes explanations for people.
func (o *explainOptions) write(all []explained) {
	out := tty.Unwrap(o.stdout)
	paint := func(code, text string) string {
		if !o.colour(out) {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
	var b strings.Builder
	for i, e := range all {
		if i > 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s %s\n", paint("31;1", string(e.Class)+":"), words.Clean(e.What))
		section := func(name string, lines ...string) {
			for j, line := range lines {
				label := ""
				if j == 0 {
					label = name
				}
				fmt.Fprintf(&b, "  %s %s\n", paint("36", fmt.Sprintf("%-8s", label)), strings.ReplaceAll(words.Indent(words.Clean(line), margin), margin+"\n", "\n"))
			}
		}
		if e.Reason != "" {
			section("reason", e.Reason)
		}
		if e.Words != "" {
			section("in words", e.Words)
		}
		section("again", e.Again)
		var causes []string
		for j, cause := range e.Causes {
			causes = append(causes, fmt.Sprintf("%d. %s", j+1, cause))
		}
		section("causes", causes...)
		for _, l := range e.Live {
			section("now", l.lines(e.Class)...)
		}
		for j, next := range e.Next {
			e.Next[j] = o.called(next)
		}
		section("next", e.Next...)
		section("rule", e.Rule)
	}
	fmt.Fprint(o.stdout, b.String())
}
