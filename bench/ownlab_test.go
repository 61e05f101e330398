package bench

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/internal/labtest"
)

var labName = flag.String("lab", "", "`name` of a lab that BenchmarkPhases may use alone, brought up with --audit; kplan-lab must be on the PATH")

// ownLab is a lab that nobody else uses: its API server is restarted, and all
// that it logs is counted.
type ownLab struct {
	*labtest.Lab
	name   string
	audit  string // the audit log's file
	config *rest.Config
}

func findOwnLab(b *testing.B) *ownLab {
	b.Helper()
	if *labName == "" {
		b.Skip("needs a lab of its own, see -lab and bench/README.md")
	}
	out, err := command(b.Context(), nil, "kplan-lab", "status", "--name", *labName, "-o", "json")
	require.NoError(b, err)
	var s struct{ State, Kubeconfig, AuditLog string }
	require.NoError(b, json.Unmarshal([]byte(out), &s))
	require.Equal(b, "running", s.State, "lab %s", *labName)
	require.NotEmpty(b, s.AuditLog, "lab %s was brought up without --audit", *labName)
	lab := &labtest.Lab{Kubeconfig: s.Kubeconfig}
	return &ownLab{lab, *labName, s.AuditLog, lab.Config(b)}
}

// restart restarts the API server, and returns when it answers again.
func (l *ownLab) restart(ctx context.Context) error {
	return l.component(ctx, "apiserver")
}

// refresh restarts the API server's clients. Each restart of it makes them wait
// longer before they connect again (client-go's reflector: 0.8 to 30 s, reset
// after two minutes), and one install must not pay for those before it.
func (l *ownLab) refresh(ctx context.Context) error {
	var errs []error
	for _, name := range []string{"controller-manager", "scheduler", "proxy", "kubelet"} {
		errs = append(errs, l.component(ctx, name))
	}
	return errors.Join(errs...)
}

// component restarts one; half a restart would leave a broken lab, so it is not
// cancelled.
func (l *ownLab) component(ctx context.Context, name string) error {
	_, err := command(context.WithoutCancel(ctx), nil, "kplan-lab", "restart", "--name", l.name, name)
	return err
}

// logged is how much of the audit log is written, in bytes.
func (l *ownLab) logged() (int64, error) {
	s, err := os.Stat(l.audit)
	if err != nil {
		return 0, err
	}
	return s.Size(), nil
}

// vain is how many calls of the chart's webhooks the API server counted, since
// it started, that got no answer.
func vain(ctx context.Context, client kubernetes.Interface) (int, error) {
	text, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the API server's metrics: %w", err)
	}
	return countVain(string(text))
}

func countVain(metrics string) (int, error) {
	sum := 0
	lines := bufio.NewScanner(strings.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), "apiserver_admission_webhook_rejection_count{")
		if !ok || !strings.Contains(labels, `error_type="calling_webhook_error"`) || !strings.Contains(labels, `.race.lab.kplan.dev"`) {
			continue
		}
		n, err := strconv.Atoi(labels[strings.LastIndex(labels, " ")+1:])
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, lines.Err()
}

func TestCountVain(t *testing.T) {
	n, err := countVain(`# TYPE apiserver_admission_webhook_rejection_count counter
apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="mutate.race.lab.kplan.dev",operation="CREATE",rejection_code="0",type="admit"} 40
apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="validate.race.lab.kplan.dev",operation="CREATE",rejection_code="0",type="validating"} 2
apiserver_admission_webhook_rejection_count{error_type="no_error",name="validate.race.lab.kplan.dev",operation="CREATE",rejection_code="400",type="validating"} 7
apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="other.example.com",operation="CREATE",rejection_code="0",type="admit"} 9
`)
	require.NoError(t, err)
	require.Equal(t, 42, n)
}

// command runs a command to its end, with variables added to its environment,
// and gives what it printed; its errors end with what it said last.
func command(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(cmp.Or(errs.String(), out.String()))
		return "", fmt.Errorf("%s: %w: %s", name, cmp.Or(context.Cause(ctx), err), said[max(0, len(said)-600):])
	}
	return out.String(), nil
}
