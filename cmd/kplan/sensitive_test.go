package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/data"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
)

// leak is an action that tells a secret in every way that there is.
type leak struct{ secret string }

func (l leak) Run(_ context.Context, r runner.Reporter) error {
	encoded := base64.StdEncoding.EncodeToString([]byte("user:" + l.secret + "@host"))
	klog.InfoS("leaking", "token", l.secret, "url", "https://"+encoded)
	w := &runner.Webhook{Name: l.secret, Service: l.secret, Cause: encoded, Configuration: l.secret, Owner: l.secret, Rung: "routed", State: "waiting"}
	for _, t := range []runner.Type{runner.TypeHeld, runner.TypeReleased, runner.TypeWebhook, runner.TypeProgress, runner.TypeLog, runner.TypeResult} {
		r.Report(runner.Report{Type: t, Message: "got " + l.secret, Object: "Secret/" + l.secret, Error: encoded, Webhook: w})
	}
	return runner.WithHint(fmt.Errorf("cannot log in with %q: %w", l.secret, errors.New(encoded)), "try "+l.secret)
}

// sharedBuffer takes what progress and log write side by side, as a file does.
type sharedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *sharedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *sharedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Whatever a step says, a sensitive value is in no output of a run: progress,
// record, summary, log and final error.
func TestRunHidesSecrets(t *testing.T) {
	secret := "s3cret \"token\" <value>"
	t.Chdir(t.TempDir())
	t.Setenv("TOKEN", secret)
	require.NoError(t, os.WriteFile("plan.yaml", []byte(`apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: demo}
vars: {token: {env: TOKEN, sensitive: true}}
steps:
  - {name: leak, retry: {install_retries: 2, retry_delay_seconds: 0.01}, wait: {resource: "pod/a", for: create}}
`), 0o600))
	for _, progress := range []string{"plain", "json", "quiet"} {
		for _, output := range []data.Format{"", data.JSON, data.YAML} {
			var stdout, stderr sharedBuffer
			a := newApp("kplan", strings.NewReader(""), &stdout, &stderr)
			a.verbosity = 7
			a.logging()
			p, err := a.load("plan.yaml", load.Options{})
			require.NoError(t, err)
			record := filepath.Join(t.TempDir(), "events.jsonl")
			o := &runOptions{app: a, progress: progress, record: record, output: output}
			r := runner.Runner{
				About: "a cluster with " + secret, Redact: a.secrets().Text,
				Resolve: func(plan.Step) (runner.Action, error) { return leak{secret}, nil },
				Guards: func(context.Context) []runner.Guard {
					return []runner.Guard{{Step: "leak", By: "leak", Webhooks: []string{secret}, Objects: 1}}
				},
			}
			x, err := o.observe(t.Context(), &r, p)
			require.Error(t, err)
			if output != "" {
				require.NoError(t, o.print(output, x))
			}
			require.Equal(t, exitFailed, a.exit(err))
			klog.Flush()
			events, err := os.ReadFile(record)
			require.NoError(t, err)
			for name, text := range map[string]string{"stdout": stdout.String(), "stderr": stderr.String(), "record": string(events)} {
				for _, part := range []string{"s3cret", `token\"`, "value>", "czNjcmV0", "M2NyZX", "NjcmV0", "zM2Ny"} {
					require.NotContains(t, text, part, "%s with --progress %s -o %s", name, progress, output)
				}
			}
			require.Contains(t, stderr.String(), "(sensitive)")
			require.Contains(t, string(events), "(sensitive)")
		}
	}
}
