//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/webhooks"
	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/webhook"
)

// TestWebhooks watches the stand-in operator's webhooks: one that comes up, one
// whose pod crashes, and one whose image cannot be pulled.
func TestWebhooks(t *testing.T) {
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	t.Setenv("KUBECONFIG", lab.Kubeconfig)
	sorts := []string{"good", "crash", "pull"}
	admin := lab.Clientset(t)
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { // releases go with their namespace; what else they brought does not
		mine := metav1.ListOptions{LabelSelector: fmt.Sprintf("app.kubernetes.io/instance in (%s-%s)", ns, strings.Join(sorts, ","+ns+"-"))}
		_ = admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, mine)
		_ = admin.AdmissionregistrationV1().MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, mine)
	})
	file := filepath.Join(t.TempDir(), "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte(fmt.Sprintf(`apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: webhooks}
defaults: {timeout: 2m}
steps:
  - {name: good, helm: {chart: %[1]s, release: %[2]s-good, namespace: %[2]s, wait: none, values: {listenDelay: 0s, webhook: {scope: namespace}}}}
  - {name: crash, helm: {chart: %[1]s, release: %[2]s-crash, namespace: %[2]s, wait: none, values: {webhook: {scope: namespace}, operator: {crash: 99}}}}
  - {name: pull, helm: {chart: %[1]s, release: %[2]s-pull, namespace: %[2]s, wait: none, values: {image: "registry.invalid/operator:v9", webhook: {scope: namespace}}}}
`, filepath.Join(labtest.Charts(), "operator"), ns)), 0o600))
	out, err := command(t, "run", file).CombinedOutput()
	require.NoError(t, err, string(out))

	watch := command(t, "webhooks", "-w", "-o", "json", ns+"-good-validate", ns+"-crash-validate", ns+"-pull-validate")
	watch.Stderr = os.Stderr
	stdout, err := watch.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, watch.Start())
	want := map[string]string{
		"good":  "callable",
		"crash": "CrashLoopBackOff: container operator ended with ",
		"pull":  `ImagePullBackOff, image "registry.invalid/operator:v9": `,
	}
	lines := bufio.NewReader(stdout)
	for len(want) > 0 {
		line, err := lines.ReadBytes('\n')
		require.NoError(t, err, "still awaited: %v", want)
		var c struct {
			Type    string
			Webhook webhooks.Webhook
		}
		require.NoError(t, json.Unmarshal(line, &c))
		sort := strings.TrimSuffix(strings.TrimPrefix(c.Webhook.Configuration, ns+"-"), "-validate")
		switch {
		case c.Webhook.Callable && want[sort] == "callable",
			c.Webhook.Lowest.Rung == webhook.Backed && want[sort] != "" && strings.Contains(c.Webhook.Lowest.Reason, want[sort]):
			delete(want, sort)
		}
	}
	require.NoError(t, watch.Process.Signal(syscall.SIGINT))
	require.Error(t, watch.Wait())
	require.Equal(t, 130, watch.ProcessState.ExitCode())

	table, err := command(t, "webhooks", "--failing", "--release", ns+"/"+ns+"-pull").Output()
	require.NoError(t, err)
	require.Regexp(t, ns+`-pull-validate/validate.operator.lab.kplan.dev +validating +create,update gadgets.lab.kplan.dev \+3 +Fail +`+ns+`/`+ns+`-pull-webhook +(\+ \+ \+ o|● ● ● ○) `, string(table))
	require.Contains(t, string(table), "2 webhooks, 2 cannot answer now:\n  backed: 0 of 1 endpoints ready; pod "+ns+"-pull-")
	require.NotContains(t, string(table), "-good")
}
