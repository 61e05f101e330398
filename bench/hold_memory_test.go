package bench

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// clients is how many there are at once, each with a connection of its own.
const clients = 100

// BenchmarkHoldMemory gives what a kplan hold needs of memory while a hundred clients
// have their requests held at once. The bar is 60 MB resident at any time, but for
// objects of a megabyte: what is kept of those is half of that.
func BenchmarkHoldMemory(b *testing.B) {
	lab := labtest.Node(b)
	ns := lab.Namespace(b)
	makePods(b, lab, ns)
	for _, bench := range []struct {
		name  string
		bytes int // of an object
		lists int // of 1,000 pods, by each client before
		held  int // of the clients; the others' objects pass, and are refused
	}{
		{"2KiB", 2 << 10, 0, clients},
		{"2KiB-after-lists", 2 << 10, 3, clients},
		{"1MiB", 1 << 20, 0, 32},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				record := filepath.Join(b.TempDir(), "run.jsonl")
				held := hold(b, lab, "--record", record)
				open := unserved(b, lab, ns)
				var g errgroup.Group
				var refused atomic.Int32
				for i := range clients {
					g.Go(func() error {
						err := attend(b.Context(), held.kubeconfig, ns, i, bench.bytes, bench.lists)
						if apierrors.IsInternalError(err) {
							refused.Add(1)
							err = nil
						}
						return err
					})
				}
				require.Eventually(b, func() bool {
					events, err := os.ReadFile(record)
					return err == nil && bytes.Count(events, []byte(`"type":"held"`)) >= bench.held
				}, 2*time.Minute, 100*time.Millisecond, "not all are held")
				m := held.memory(b)
				open()
				require.NoError(b, g.Wait())
				require.LessOrEqual(b, int(refused.Load()), clients-bench.held)
				most := held.memory(b).most
				held.stop()
				b.ReportMetric(0, "ns/op") // the lab's
				b.ReportMetric(most, "most-MB")
				b.ReportMetric(m.own, "own-MB")
				b.ReportMetric(m.file, "file-MB")
			}
		})
	}
}

// attend is one of many clients: it reads, and writes an object that is held.
func attend(ctx context.Context, kubeconfig, ns string, i, size, lists int) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = -1
	config.Dial = (&net.Dialer{}).DialContext // or all would have one connection
	set, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for range lists {
		if err := set.CoreV1().RESTClient().Get().AbsPath("/api/v1/namespaces", ns, "pods").Do(ctx).Error(); err != nil {
			return err
		}
	}
	_, err = set.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{GenerateName: fmt.Sprintf("crowd-%d-", i), Labels: map[string]string{"crowd": ns}},
		Data:       map[string]string{"text": strings.Repeat("x", size-1000)},
	}, metav1.CreateOptions{})
	return err
}

// unserved puts a webhook before the crowd's ConfigMaps that nobody serves, until open
// is called.
func unserved(b *testing.B, lab *labtest.Lab, ns string) (open func()) {
	b.Helper()
	api := lab.Clientset(b).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	fail, none, url := admissionv1.Fail, admissionv1.SideEffectClassNone, "https://127.0.0.1:1/"
	_, err := api.Create(b.Context(), &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "crowd.bench.kplan.dev", FailurePolicy: &fail, SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig:   admissionv1.WebhookClientConfig{URL: &url},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"crowd": ns}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(b, err)
	open = func() { _ = api.Delete(context.Background(), ns, metav1.DeleteOptions{}) } // it may be gone
	b.Cleanup(open)
	return open
}

// memory is what a process has, in megabytes.
type memory struct {
	most      float64 // that was resident at any time
	own, file float64 // resident now: its own, and mapped of its program's file
}

// memory reads what the system counts.
func (h holding) memory(b *testing.B) (m memory) {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", h.process.Pid))
	if err != nil {
		return memory{} // the system has no such file
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		into := map[string]*float64{"VmHWM": &m.most, "RssAnon": &m.own, "RssFile": &m.file}[name]
		if kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 64); into != nil && err == nil {
			*into = kib * 1024 / 1e6
		}
	}
	return m
}
