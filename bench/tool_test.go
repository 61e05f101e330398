package bench

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// tool is what installs or upgrades a release and waits until it is ready.
type tool interface {
	// String is the tool's name in the table.
	String() string
	// agents are the prefixes of the user agents of its requests.
	agents() []string
	// install gives how many attempts were made, and why the last one failed.
	install(ctx context.Context, j job) (int, error)
}

// job is one install or upgrade of the chart race.
type job struct {
	lab *ownLab
	// client is not the tool's; a check that belongs to it makes its own.
	client kubernetes.Interface
	// release is also the namespace, which is there.
	release string
	// dir is an empty folder, and values the path of the values file.
	dir, values string
}

func (j job) chart() string { return filepath.Join(labtest.Charts(), "race") }

// write writes the values file, with a number of guarded objects of a kind.
func (j job) write(values, kind string, objects int) error {
	counts := map[string]int{"Alert": 0, "Gadget": 0, "Widget": 0}
	counts[kind] = objects
	text := fmt.Sprintf("%sguarded: {alerts: %d, gadgets: %d, widgets: %d}\n", values, counts["Alert"], counts["Gadget"], counts["Widget"])
	return os.WriteFile(j.values, []byte(text), 0o600)
}

// revision is the newest of the release; 0 when Helm knows of none.
func (j job) revision(ctx context.Context) (int, error) {
	list, err := j.client.CoreV1().Secrets(j.release).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + j.release})
	if err != nil {
		return 0, err
	}
	newest := 0
	for _, s := range list.Items {
		n, err := strconv.Atoi(s.Labels["version"])
		if err != nil {
			return 0, fmt.Errorf("version of Secret %s: %w", s.Name, err)
		}
		newest = max(newest, n)
	}
	return newest, nil
}

// kplan runs a plan of one helm step, as kplan's own command does.
type kplan struct {
	// tell gets the run's events.
	tell runner.Observer
}

func (kplan) String() string   { return "kplan" }
func (kplan) agents() []string { return []string{"kplan-bench"} }

func (k kplan) install(ctx context.Context, j job) (int, error) {
	file := filepath.Join(j.dir, "plan.yaml")
	text := fmt.Sprintf(phasePlan, j.chart(), j.release, j.values)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return 0, err
	}
	p, err := load.File(file, load.Options{})
	if err != nil {
		return 0, err
	}
	s, err := steps.New(ctx, steps.Config{Plan: p, Flags: j.lab.Flags(), UserAgent: "kplan-bench"})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	r := &runner.Runner{Resolve: s.Resolve, Observers: []runner.Observer{k.tell}}
	done, err := r.Run(ctx, p)
	if done == nil {
		return 0, err
	}
	return done.Step("race").Attempt, err
}

const phasePlan = `apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: race}
steps:
- name: race
  helm:
    chart: %s
    release: %[2]s
    namespace: %[2]s
    wait: ready
    values_files: [%[3]s]
`

// repeated is a command line that is run until it succeeds.
type repeated struct {
	name string
	// once runs it.
	once func(context.Context, job) error
	// pause is the time between attempts, and most how many there may be (0: any).
	pause time.Duration
	most  int
	// check is waited for before the next attempt; nil: nothing.
	check func(context.Context, job) error
}

func (r repeated) String() string { return r.name }
func (repeated) agents() []string { return []string{"Helm/", checkAgent} }

func (r repeated) install(ctx context.Context, j job) (int, error) {
	for n := 1; ; n++ {
		err := r.once(ctx, j)
		if err == nil || n == r.most || ctx.Err() != nil {
			return n, err
		}
		if !sleep(ctx, r.pause) {
			return n, err
		}
		if r.check == nil {
			continue
		}
		if cerr := r.check(ctx, j); cerr != nil && ctx.Err() != nil {
			return n, errors.Join(err, cerr)
		}
	}
}

// helm is "helm upgrade --install" by a Helm of that name on the PATH.
func helm(name string) func(context.Context, job) error {
	return func(ctx context.Context, j job) error {
		_, err := command(ctx, helmHome(j), name, "upgrade", "--install", j.release, j.chart(), "--namespace", j.release,
			"--values", j.values, "--wait", "--timeout", bound.String())
		return err
	}
}

// helmfile is "helmfile sync" of one release.
func helmfile(ctx context.Context, j job) error {
	file := filepath.Join(j.dir, "helmfile.yaml")
	text := fmt.Sprintf("releases:\n- {name: %[1]q, namespace: %[1]q, chart: %[2]q, values: [%[3]q], wait: true, timeout: %[4]d}\n",
		j.release, j.chart(), j.values, int(bound.Seconds()))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	_, err := command(ctx, helmHome(j), "helmfile", "--file", file, "sync")
	return err
}

// helmHome keeps what Helm stores in the job's folder.
func helmHome(j job) []string {
	return []string{
		"KUBECONFIG=" + j.lab.Kubeconfig,
		"HELM_CACHE_HOME=" + j.dir, "HELM_CONFIG_HOME=" + j.dir, "HELM_DATA_HOME=" + j.dir,
	}
}

const checkAgent = "bench-check"

// threeLayers waits until the Deployment is available, the Service of each
// webhook has a ready address and its configuration has a CA; at most a minute,
// then the next attempt is made all the same.
func threeLayers(ctx context.Context, j job) error {
	client, err := kubernetes.NewForConfig(apart(j.lab.config, checkAgent))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("the webhook was not ready in a minute"))
	defer cancel()
	for {
		missing := layers(ctx, client, j.release)
		if missing == nil || !sleep(ctx, 2*time.Second) {
			return missing
		}
	}
}

// layers tells what is missing.
func layers(ctx context.Context, client kubernetes.Interface, release string) error {
	d, err := client.AppsV1().Deployments(release).Get(ctx, release, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if d.Status.AvailableReplicas == 0 {
		return errors.New("the Deployment is not available")
	}
	configuration, err := client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(ctx, release+"-validate", metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, w := range configuration.Webhooks {
		if len(w.ClientConfig.CABundle) == 0 {
			return errors.New("no CA is injected")
		}
		found, err := client.DiscoveryV1().EndpointSlices(release).List(ctx, metav1.ListOptions{
			LabelSelector: discoveryv1.LabelServiceName + "=" + w.ClientConfig.Service.Name,
		})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(found.Items, func(s discoveryv1.EndpointSlice) bool { return hasReady(&s) }) {
			return errors.New("the Service has no ready address")
		}
	}
	return nil
}

// kapp renders the chart once and deploys what came out.
type kapp struct{}

func (kapp) String() string   { return "kapp deploy" }
func (kapp) agents() []string { return []string{"kapp/"} }

func (kapp) install(ctx context.Context, j job) (int, error) {
	manifest, err := command(ctx, nil, "helm", "template", j.release, j.chart(), "--namespace", j.release, "--values", j.values)
	if err != nil {
		return 0, err
	}
	file := filepath.Join(j.dir, "manifest.yaml")
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		return 0, err
	}
	_, err = command(ctx, nil, "kapp", "deploy", "--app", j.release, "--namespace", j.release, "--file", file,
		"--yes", "--kubeconfig", j.lab.Kubeconfig)
	return 1, err
}

// versions says which of some rivals are compared.
func versions(names ...string) string {
	var all []string
	for _, name := range names {
		if v := version(name); v != "" {
			all = append(all, name+" "+v)
		} else {
			all = append(all, "no "+name+" on the PATH")
		}
	}
	return strings.Join(all, ", ")
}

// version is that of the Go module which a command on the PATH was built from.
func version(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "of an unknown version"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if strings.HasPrefix(info.Path+"/", m.Path+"/") && m.Version != "" && m.Version != "(devel)" {
			return m.Version
		}
	}
	return "of an unknown version"
}

// sleep waits for d; false when ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
