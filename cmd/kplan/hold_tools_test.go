//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// helm4 is upgrade by Helm 4.
func (r *raced) helm4(values ...string) []string {
	args := r.upgrade(values...)
	args[0] = labtest.Helm4(r.t)
	return args
}

// helmfile is upgrade by a helmfile.
func (r *raced) helmfile(values ...string) []string {
	r.t.Helper()
	text := fmt.Sprintf("releases:\n- {name: %[1]s, namespace: %[1]s, chart: %[2]q, set: [", r.ns, filepath.Join(labtest.Charts(), "race"))
	for _, v := range append([]string{"listenDelay=4s"}, values...) {
		name, value, _ := strings.Cut(v, "=")
		text += fmt.Sprintf("{name: %s, value: %s}, ", name, value)
	}
	file := filepath.Join(r.t.TempDir(), "helmfile.yaml")
	require.NoError(r.t, os.WriteFile(file, []byte(text+"]}\n"), 0o600))
	return []string{labtest.Helmfile(r.t), "--helm-binary", r.helm, "--file", file, "sync"}
}

// Helm and helmfile, unchanged, win their race with the webhook when they run by
// kplan hold, and lose it without: in one attempt, as revision 1, whether or not each
// render makes a new certificate. The webhook that they lose to never answers: on a
// busy machine Helm takes longer than the 4 s of the other.
func TestHoldHelm(t *testing.T) {
	const installing = `Release ".*" does not exist\. Installing it now\.|.*found symbolic link in path.*`
	for _, tool := range []struct {
		name    string
		command func(r *raced, values ...string) []string
		says    string // what it writes to stderr itself
	}{
		{"Helm 3", (*raced).upgrade, installing},
		{"Helm 4", (*raced).helm4, installing},
		{"helmfile", (*raced).helmfile, `.*`},
	} {
		for _, keep := range []string{"certificate.keep=true", "certificate.keep=false"} {
			t.Run(tool.name+" "+keep, func(t *testing.T) {
				t.Parallel()
				alone := race(t)
				stdout, stderr, err := alone.run(nil, tool.command(alone, keep, "listenDelay=10m")...)
				require.Error(t, err)
				require.Contains(t, stdout+stderr, "failed calling webhook")

				r := race(t)
				install := tool.command(r, keep)
				name := filepath.Base(install[0])
				dir := t.TempDir()
				stdout, stderr, err = r.run(recordTo(dir), install...)
				require.NoError(t, err, stderr)
				require.Contains(t, stdout+stderr, "STATUS: deployed")
				require.Contains(t, stdout+stderr, "REVISION: 1\n")
				for line := range strings.Lines(stderr) {
					require.Regexp(t, `^(kplan: .*|`+tool.says+`)\n$`, line)
				}
				require.Regexp(t, "kplan: holding (Gadget|Widget)/"+r.ns+"/"+r.ns+"-", stderr)
				require.Contains(t, stderr, "kplan: held 5 requests of "+name+" up to ")
				require.Contains(t, stderr, "; without kplan they would have failed\n")

				replayed := replays(t, dir)
				for _, want := range []string{"holding    ", "released   5 requests held ", "succeeded  "} {
					require.Contains(t, replayed, " "+name+"  "+want)
				}
				for kind, want := range map[string]string{
					"html": "<title>hold: succeeded", "markdown": "## ✓ `hold`: succeeded", "json": `"state": "succeeded"`, "junit": `<testcase name="` + name + `"`,
				} {
					report, err := os.ReadFile(filepath.Join(dir, reportNames[kind]))
					require.NoError(t, err)
					require.Contains(t, string(report), want)
					require.Contains(t, string(report), "mutate.race.lab.kplan.dev", kind)
				}
				history, stderr, err := r.run(nil, r.helm, "history", r.ns, "--namespace", r.ns, "--output", "json")
				require.NoError(t, err, stderr)
				require.Regexp(t, `^\[\{"revision":1,[^{}]*"status":"deployed",[^{}]*\}\]$`, strings.TrimSpace(history))
			})
		}
	}
}

// kapp sends again what a webhook could not judge; by kplan hold it need not.
func TestHoldKapp(t *testing.T) {
	t.Parallel()
	for _, flags := range [][]string{nil, {}} {
		r := race(t)
		// kapp owns what it deploys, and the kinds are all tests'.
		kinds := filepath.Join(labtest.Charts(), "race", "crds")
		_, _, _ = r.run(nil, r.kubectl, "create", "-f", kinds) // another test may have
		_, stderr, err := r.run(nil, r.kubectl, "wait", "--for=condition=Established", "-f", kinds)
		require.NoError(t, err, stderr)
		// kapp tries each request for 5 s before it says so.
		manifest, stderr, err := r.run(nil, append([]string{r.helm, "template"}, r.upgrade("listenDelay=8s")[3:]...)...)
		require.NoError(t, err, stderr)
		file := filepath.Join(t.TempDir(), "all.yaml")
		require.NoError(t, os.WriteFile(file, []byte(manifest), 0o600))
		// kapp has five requests under way, in no order. Were all of them held, none
		// would be left to send what the webhook waits for.
		stdout, stderr, err := r.run(flags, labtest.Kapp(t), "deploy", "--yes", "--app", r.ns, "--namespace", r.ns, "--file", file, "--apply-concurrency", "100")
		require.NoError(t, err, stderr)
		require.Contains(t, stdout, "Succeeded")
		if flags == nil {
			require.Contains(t, stdout, "Retryable error: ")
			require.Contains(t, stdout, "failed calling webhook")
			continue
		}
		require.NotContains(t, stdout, "Retryable error: ")
		require.Regexp(t, `kplan: held \d+ requests of kapp up to .*; without kplan they would have failed\n`, stderr)
	}
}
