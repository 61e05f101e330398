//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// raced is a namespace for the lab's one-chart race, and the tools that run it.
type raced struct {
	t             *testing.T
	lab           *labtest.Lab
	ns            string
	helm, kubectl string
}

// race makes one. What the chart has outside of the namespace is named after that,
// and removed at the end.
func race(t *testing.T) *raced {
	t.Helper()
	lab := labtest.Node(t)
	lab.Operator(t)
	r := &raced{t: t, lab: lab, ns: lab.Namespace(t), helm: labtest.Helm(t), kubectl: labtest.Kubectl(t)}
	api := lab.Clientset(t).AdmissionregistrationV1()
	t.Cleanup(func() {
		_ = api.ValidatingWebhookConfigurations().Delete(context.Background(), r.ns+"-validate", metav1.DeleteOptions{})
		_ = api.MutatingWebhookConfigurations().Delete(context.Background(), r.ns+"-mutate", metav1.DeleteOptions{})
	})
	return r
}

// run runs a command, which may be kplan, by kplan hold if flags are given, and gives what it wrote to
// stdout and stderr.
func (r *raced) run(flags []string, args ...string) (stdout, stderr string, err error) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), args[0], args[1:]...)
	switch {
	case args[0] == "kplan":
		cmd = command(r.t, args[1:]...)
	case flags != nil: // others break webhooks beside this test, of which a preflight tells
		cmd = command(r.t, append(append(append([]string{"hold", "--preflight", "off"}, flags...), "--"), args...)...)
	}
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.lab.Kubeconfig, "KUBECACHEDIR="+r.t.TempDir(), "TMPDIR="+r.t.TempDir(), "XDG_RUNTIME_DIR=")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// upgrade is how people install: the chart's operator needs some seconds.
func (r *raced) upgrade(values ...string) []string {
	args := []string{r.helm, "upgrade", "--install", r.ns, filepath.Join(labtest.Charts(), "race"), "--namespace", r.ns, "--set", "listenDelay=4s"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return args
}

// A hold in vain tells the command what the API server said last, and why.
func TestHoldHelmInVain(t *testing.T) {
	t.Parallel()
	r := race(t)
	_, stderr, err := r.run([]string{"--hold-timeout", "3s", "--progress", "plain"}, r.upgrade("listenDelay=10m", "guarded.widgets=1")...)
	exit := (*exec.ExitError)(nil)
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Regexp(t, `(?s)Error: .*failed calling webhook "mutate\.race\.lab\.kplan\.dev": .*connection refused `+
		`\(kplan: held 3s in vain; backed: 0 of 1 endpoints ready; pod \S+ runs, but its container operator is not ready; `+
		`it belongs to Helm release \S+; .*; look at the pod: kubectl describe pod -n \S+ \S+\)`, stderr)
	require.Contains(t, stderr, "helm  failed     after ")
}

// kubectl apply waits with the objects that a webhook guards, and fails without.
func TestHoldKubectlApply(t *testing.T) {
	t.Parallel()
	alone, r := race(t), race(t)
	// kubectl looks all kinds up before it sends anything.
	crds := filepath.Join(labtest.Charts(), "race", "crds")
	_, stderr, err := r.run(nil, "sh", "-c", r.kubectl+" apply -f "+crds+" && "+r.kubectl+" wait --for=condition=Established -f "+crds)
	require.NoError(t, err, stderr)
	for _, held := range []*raced{alone, r} {
		args := append([]string{held.helm, "template"}, held.upgrade("certificate.keep=false")[3:]...)
		manifest, stderr, err := held.run(nil, args...)
		require.NoError(t, err, stderr)
		file := filepath.Join(t.TempDir(), "all.yaml")
		require.NoError(t, os.WriteFile(file, []byte(manifest), 0o600))
		apply := []string{held.kubectl, "apply", "-f", file}
		if held == alone {
			_, stderr, err := held.run(nil, apply...)
			require.Error(t, err)
			require.Contains(t, stderr, "failed calling webhook")
			continue
		}
		_, stderr, err = held.run([]string{}, apply...)
		require.NoError(t, err, stderr)
		require.Contains(t, stderr, "kplan: held ")
		out, stderr, err := held.run(nil, r.kubectl, "get", "widgets,gadgets", "-n", r.ns, "-o", "name")
		require.NoError(t, err, stderr)
		require.Equal(t, 10, strings.Count(out, "\n"))
	}
}

// pod is one that has the node's programs, and its own folder /scratch.
const pod = `apiVersion: v1
kind: Pod
metadata: {name: tools, namespace: %s}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: tools
    image: ` + labtest.OperatorImage + `
    imagePullPolicy: IfNotPresent
    env: [{name: PATH, value: /usr/bin:/bin}]
    command: [/bin/sh, -c, "echo first; while ! [ -e /scratch/go ]; do sleep 0.05; done; echo second; while sleep 0.1; do echo more; done"]
    volumeMounts:
    - {name: usr, mountPath: /usr, readOnly: true}
    - {name: bin, mountPath: /bin, readOnly: true}
    - {name: lib, mountPath: /lib, readOnly: true}
    - {name: lib64, mountPath: /lib64, readOnly: true}
    - {name: work, mountPath: /scratch}
  volumes:
  - {name: usr, hostPath: {path: /usr}}
  - {name: bin, hostPath: {path: /bin}}
  - {name: lib, hostPath: {path: /lib}}
  - {name: lib64, hostPath: {path: /lib64}}
  - {name: work, emptyDir: {}}
`

// What holds no object passes: watches, logs, exec, port-forward and cp, by each
// protocol that kubectl speaks.
func TestHoldPassesThrough(t *testing.T) {
	t.Parallel()
	r := race(t)
	k := func(args ...string) string {
		return strings.Join(append([]string{r.kubectl, "-n", r.ns}, args...), " ")
	}
	file := filepath.Join(t.TempDir(), "pod.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, pod, r.ns), 0o600))
	big := filepath.Join(t.TempDir(), "big")
	require.NoError(t, os.WriteFile(big, bytes.Repeat([]byte("0123456789abcdef"), 1<<18), 0o600)) // 4 MiB
	for _, step := range []struct{ name, script, want string }{
		{"create", k("apply", "-f", file) + "; " + k("wait", "--for=condition=Ready", "pod/tools", "--timeout=2m"), "pod/tools condition met"},
		{"logs -f", k("logs", "-f", "tools") + ` | while read line; do echo "$line"; [ "$line" = second ] && exit; ` + k("exec", "tools", "--", "touch", "/scratch/go") + "; done", "first\nsecond"},
		{"exec by WebSocket", "echo hello | " + k("exec", "-i", "tools", "--", "cat"), "hello"},
		{"exec by SPDY", "export KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false; echo hello | " + k("exec", "-i", "tools", "--", "cat"), "hello"},
		{"exit code", k("exec", "tools", "--", "sh", "-c", "'exit 42'") + " 2>&1; echo $?", "command terminated with exit code 42\n42"},
		{"cp", k("cp", big, "tools:/scratch/big") + " && " + k("cp", "tools:/scratch/big", big+".back") + " && cmp " + big + " " + big + ".back && echo same", "same"},
		// the watch ends when it writes what comes after its reader has gone
		{"get -w", `timeout 60 ` + k("get", "configmaps", "-w", "-o", "name") + ` | { while read line; do echo "$line"; case $line in */seen) break;; esac; ` +
			k("create", "configmap", "seen") + " >/dev/null 2>&1; done; exec <&-; " + k("create", "configmap", "later") + " >/dev/null; }", "configmap/kube-root-ca.crt\nconfigmap/seen"},
		{"--as", k("auth", "whoami", "--as=jane", "--as-group=dev", "-o", "jsonpath='{.status.userInfo.username} {.status.userInfo.groups[0]}'"), "jane dev"},
		{"forbidden", k("get", "secrets", "--as=jane") + " 2>&1", `Error from server (Forbidden): secrets is forbidden: User "jane" cannot list resource "secrets" in API group "" in the namespace "` + r.ns + `"`},
		{"explain", k("explain", "deployments.spec.replicas") + " | head -1", "GROUP:      apps"},
		{"discovery", k("api-resources", "--api-group=apps", "-o", "name") + " | grep deployments", "deployments.apps"},
		{"conflict", k("create", "configmap", "seen") + " 2>&1", `error: failed to create configmap: configmaps "seen" already exists`},
	} {
		stdout, stderr, err := r.run([]string{}, "sh", "-c", step.script)
		require.Contains(t, stdout, step.want, "%s: %v %s", step.name, err, stderr)
		require.NotContains(t, stderr, "kplan:", step.name)
	}
	_, stderr, err := r.run([]string{}, r.upgrade("guarded.gadgets=0")...)
	require.NoError(t, err, stderr)
	for _, websockets := range []string{"true", "false"} {
		r.forward(websockets)
	}
	r.interactive()
}

// Each context leads to its cluster with the credentials that it has, and one that
// cannot be used says so.
func TestHoldContexts(t *testing.T) {
	t.Parallel()
	r := race(t)
	config, err := clientcmd.LoadFromFile(r.lab.Kubeconfig)
	require.NoError(t, err)
	current := config.Contexts[config.CurrentContext]
	jane := config.AuthInfos[current.AuthInfo].DeepCopy()
	jane.Impersonate = "jane"
	config.AuthInfos["jane"] = jane
	config.Contexts["jane"] = &clientcmdapi.Context{Cluster: current.Cluster, AuthInfo: "jane", Namespace: r.ns}
	config.Contexts["broken"] = &clientcmdapi.Context{Cluster: current.Cluster, AuthInfo: "nobody"}
	two := *r.lab
	two.Kubeconfig = filepath.Join(t.TempDir(), "config")
	require.NoError(t, clientcmd.WriteToFile(*config, two.Kubeconfig))
	r.lab = &two

	whoami := r.kubectl + " auth whoami -o jsonpath='{.status.userInfo.username} ' "
	out, stderr, err := r.run([]string{}, "sh", "-c", whoami+"; "+whoami+"--context jane; "+whoami+"--context broken; "+whoami+"--user jane")
	require.Error(t, err)
	require.Regexp(t, `^\S+ jane $`, out)
	require.NotRegexp(t, "^jane", out)
	require.Contains(t, stderr, `kplan cannot use context broken: kubeconfig has no user "nobody", which its context "broken" names`)
	require.Contains(t, stderr, `auth info "jane" does not exist`)

	out, stderr, err = r.run([]string{"--context", "jane", "--only-context"}, "sh", "-c", whoami+"&& "+r.kubectl+" config get-contexts -o name")
	require.NoError(t, err, stderr)
	require.Equal(t, "jane jane\n", out)
}

// What clients discover is kept where they keep it of the API server, and nothing
// else is left there.
func TestHoldKeepsCaches(t *testing.T) {
	t.Parallel()
	r := race(t)
	caches := t.TempDir()
	for range 2 {
		cmd := command(t, "hold", "--", r.kubectl, "get", "namespaces")
		cmd.Env = append(os.Environ(), "KUBECONFIG="+r.lab.Kubeconfig, "KUBECACHEDIR="+caches)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		require.FileExists(t, filepath.Join(cacheIn(caches, r.lab.Config(t).Host), "servergroups.json"))
	}
	for folder, want := range map[string]int{caches: 1, filepath.Join(caches, "discovery"): 1} {
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Len(t, left, want)
	}
}

// forward asks the race's operator by port-forward whether it is ready.
func (r *raced) forward(websockets string) {
	r.t.Helper()
	cmd := command(r.t, "hold", "--", r.kubectl, "-n", r.ns, "port-forward", "deploy/"+r.ns, ":8081")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.lab.Kubeconfig, "TMPDIR="+r.t.TempDir(), "XDG_RUNTIME_DIR=", "KUBECTL_PORT_FORWARD_WEBSOCKETS="+websockets)
	stdout, err := cmd.StdoutPipe()
	require.NoError(r.t, err)
	require.NoError(r.t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(r.t, err)
	address, _, _ := strings.Cut(strings.TrimPrefix(line, "Forwarding from "), " ")
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+address+"/readyz", nil)
	require.NoError(r.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(r.t, err)
	require.NoError(r.t, resp.Body.Close())
	require.Equal(r.t, http.StatusOK, resp.StatusCode)
	require.NoError(r.t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait() // kubectl's own business
}

// interactive talks to a shell in a pod on a terminal.
func (r *raced) interactive() {
	r.t.Helper()
	h := &held{t: r.t, temp: r.t.TempDir()}
	h.cmd = command(r.t, "hold", "--", r.kubectl, "-n", r.ns, "exec", "-it", "tools", "--", "sh")
	h.cmd.Env = append(os.Environ(), "KUBECONFIG="+r.lab.Kubeconfig, "TMPDIR="+h.temp, "XDG_RUNTIME_DIR=", "PS1=")
	keys := h.terminal()
	_, err := io.WriteString(keys, "test -t 0 && echo on a $((40+2)) terminal; exit 5\r")
	require.NoError(r.t, err)
	all, _ := io.ReadAll(h.stdout) // ends with an error when the terminal's other end is closed
	require.Contains(r.t, string(all), "on a 42 terminal")
	require.Equal(r.t, 5, h.code())
	h.leavesNothing("")
}

// A hundred clients of one proxy are served at once, each held and answered; a
// list of a thousand objects is whole.
func TestHoldManyClients(t *testing.T) {
	t.Parallel()
	r := race(t)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	cmd := command(t, "hold", "--kubeconfig-out", kubeconfig, "--progress", "quiet")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+r.lab.Kubeconfig, "TMPDIR="+dir, "XDG_RUNTIME_DIR=")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(kubeconfig); return err == nil }, time.Minute, 10*time.Millisecond)
	clients := &labtest.Lab{Kubeconfig: kubeconfig}

	_, stderr, err := r.run(nil, r.upgrade("guarded.widgets=0", "guarded.gadgets=0", "listenDelay=3s")...)
	require.NoError(t, err, stderr)
	g, config := errgroup.Group{}, clients.Config(t)
	for i := range 100 {
		g.Go(func() error { return createWidget(t.Context(), config, r.ns, fmt.Sprintf("many-%d", i)) })
	}
	require.NoError(t, g.Wait())
	out, stderr, err := r.run(nil, r.kubectl, "--kubeconfig", kubeconfig, "get", "widgets", "-n", r.ns, "-o", "name")
	require.NoError(t, err, stderr)
	require.Equal(t, 100, strings.Count(out, "\n"))

	set := clients.Clientset(t).CoreV1().ConfigMaps(r.ns)
	require.NoError(t, createMany(t.Context(), set, 1000))
	list, err := set.List(t.Context(), metav1.ListOptions{LabelSelector: "many=yes"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1000)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	require.NoError(t, err)
	t.Log("memory:", strings.Join(regexp.MustCompile(`(?:VmHWM|RssAnon|RssFile):\s+\d+ kB`).FindAllString(string(status), -1), ", "))
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	require.Equal(t, 130, cmd.ProcessState.ExitCode())
}

// createWidget makes an object that the race's webhooks guard, by a client of its own.
func createWidget(ctx context.Context, config *rest.Config, namespace, name string) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "lab.kplan.dev/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"width": int64(1), "height": int64(2)},
	}}
	widgets := client.Resource(schema.GroupVersionResource{Group: "lab.kplan.dev", Version: "v1", Resource: "widgets"})
	_, err = widgets.Namespace(namespace).Create(ctx, widget, metav1.CreateOptions{})
	return err
}

// createMany makes ConfigMaps with the label many=yes, some at a time.
func createMany(ctx context.Context, set typedcorev1.ConfigMapInterface, n int) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(20)
	for i := range n {
		g.Go(func() error {
			_, err := set.Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i), Labels: map[string]string{"many": "yes"}},
				Data:       map[string]string{"text": strings.Repeat("x", 1000)},
			}, metav1.CreateOptions{})
			return err
		})
	}
	return g.Wait()
}
