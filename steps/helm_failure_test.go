package steps_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	helmtime "helm.sh/helm/v3/pkg/time"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// faulty is the lab behind a proxy that answers for it where fault gives a
// status other than 0.
func faulty(t *testing.T, lab *labtest.Lab, fault func(*http.Request) int) *labtest.Lab {
	t.Helper()
	config := lab.Config(t)
	transport, err := rest.TransportFor(config)
	require.NoError(t, err)
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if code := fault(req); code != 0 {
			http.Error(w, "the test says so: secrets not found", code)
			return
		}
		proxy.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`apiVersion: v1
kind: Config
current-context: lab
contexts: [{name: lab, context: {cluster: lab}}]
clusters: [{name: lab, cluster: {server: "`+server.URL+`"}}]
`), 0o600))
	return &labtest.Lab{Kubeconfig: file}
}

// brokenService is refused by the API server when the value broken is true,
// after the chart's ConfigMap was made.
var brokenService = map[string]string{"service.yaml": `{{ if .Values.broken }}
apiVersion: v1
kind: Service
metadata: {name: broken}
spec: {ports: [{port: 80}], type: ClusterIP, clusterIP: "300.0.0.1"}
{{ end }}`}

// A release that may have been deployed is not uninstalled: what the API server
// fails to tell counts as nothing known.
func TestHelmStepUninstallsOnlyWhatWasNeverDeployed(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	var recorded, failed atomic.Bool
	behind := faulty(t, lab, func(req *http.Request) int {
		secrets := strings.HasSuffix(req.URL.Path, "/"+ns+"/secrets")
		switch {
		case secrets && req.Method == http.MethodPost:
			recorded.Store(true) // the next to ask for the history is the cleanup
		case secrets && req.Method == http.MethodGet && recorded.Load() && failed.CompareAndSwap(false, true):
			return http.StatusInternalServerError
		}
		return 0
	})
	dir := chartOf(t, brokenService)
	step := func(lab *labtest.Lab, values string) error {
		return runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, on_failure: uninstall, values: "+values+"}\n").err
	}
	require.NoError(t, step(lab, "{data: {is: good}}"))

	err := step(behind, "{broken: true, data: {is: bad}}")

	require.True(t, failed.Load())
	require.ErrorContains(t, err, "300.0.0.1", "the first failure is told")
	require.ErrorContains(t, err, "the test says so", "and the cleanup's")
	history, err := helmOf(t, lab, ns).Releases.History(ns)
	require.NoError(t, err)
	require.Len(t, history, 2)
	settings(t, lab, ns)
}

// What a step did about its failure is in its error and in its log.
func TestHelmStepTellsWhatItUndid(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	dir := chartOf(t, brokenService)

	out := runPlan(t, lab, ns, "\n- name: s\n  helm: {chart: "+dir+", release: NS, namespace: NS, on_failure: uninstall, values: {broken: true}}\n")

	require.ErrorContains(t, out.err, "300.0.0.1")
	require.ErrorContains(t, out.err, "uninstalling the release, which was never deployed, succeeded")
	logs := out.of(runner.TypeLog)
	require.NotEmpty(t, logs)
	require.Contains(t, logs[len(logs)-1].Message, "uninstalling the release, which was never deployed, succeeded")
}

// A release in the middle of anything is left alone, with a hint how to go on.
func TestHelmStepRefusesABusyRelease(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		statuses []release.Status
	}{
		"a rollback that was killed":      {[]release.Status{release.StatusDeployed, release.StatusFailed, release.StatusPendingRollback}},
		"an upgrade that was killed":      {[]release.Status{release.StatusDeployed, release.StatusPendingUpgrade}},
		"an uninstall that was killed":    {[]release.Status{release.StatusFailed, release.StatusUninstalling}},
		"an install that is not over yet": {[]release.Status{release.StatusPendingInstall}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lab := labtest.ControlPlane(t)
			ns := lab.Namespace(t)
			config := helmOf(t, lab, ns)
			now := helmtime.Now()
			for i, s := range tc.statuses {
				require.NoError(t, config.Releases.Create(&release.Release{
					Name: ns, Namespace: ns, Version: i + 1, Chart: &chart.Chart{Metadata: &chart.Metadata{Name: "before", Version: "0.1.0"}},
					Info: &release.Info{Status: s, FirstDeployed: now, LastDeployed: now.Add(time.Duration(i) * time.Second)},
				}))
			}
			step := "\n- name: s\n  retry: {install_retries: 3}\n  helm: {chart: " + chartOf(t, nil) + ", release: NS, namespace: NS}\n"

			out := runPlan(t, lab, ns, step)

			require.ErrorContains(t, out.err, "is "+string(tc.statuses[len(tc.statuses)-1])+" since")
			require.Contains(t, runner.HintOf(out.err), "--take-over")
			require.Equal(t, 1, out.execution.Step("s").Attempt, "another attempt cannot mend it")

			out = runSteps(t, lab, ns, step, steps.Config{TakeOver: map[string]bool{"s": true}})

			require.NoError(t, out.err)
			logs := out.of(runner.TypeLog)
			require.NotEmpty(t, logs)
			require.Contains(t, logs[0].Message, "was left "+string(tc.statuses[len(tc.statuses)-1])+", and is taken over")
			history, err := config.Releases.History(ns)
			require.NoError(t, err)
			require.Equal(t, release.StatusDeployed, history[len(history)-1].Info.Status)
		})
	}
}

// What the user may not do is not tried again, and how to check it is told.
func TestHelmStepMayNotDoIt(t *testing.T) {
	t.Parallel()
	lab := labtest.ControlPlane(t)
	ns := lab.Namespace(t)
	config, err := clientcmd.LoadFromFile(lab.Kubeconfig)
	require.NoError(t, err)
	config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo].Impersonate = "system:serviceaccount:" + ns + ":default"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, file))

	out := runPlan(t, &labtest.Lab{Kubeconfig: file}, ns, "\n- name: s\n  retry: {install_retries: 3}\n  helm: {chart: "+chartOf(t, nil)+", release: NS, namespace: NS}\n")

	require.ErrorContains(t, out.err, "cannot list resource \"secrets\"")
	require.Equal(t, "check with: kubectl auth can-i list secrets -n "+ns, runner.HintOf(out.err))
	require.True(t, runner.IsPermanent(out.err))
	require.Equal(t, 1, out.execution.Step("s").Attempt)
}
