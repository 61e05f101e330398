package steps_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kplan-dev/kplan/internal/labtest"
	"github.com/kplan-dev/kplan/plan/load"
	"github.com/kplan-dev/kplan/runner"
	"github.com/kplan-dev/kplan/steps"
)

// logs are the texts of a run's logs, by what says them; what is random in the names
// of pods is cut off.
func (r *run) logs(ns string) map[string]string {
	out := map[string]string{}
	for _, e := range r.of(runner.TypeLog) {
		object := strings.Replace(e.Object, "/"+ns+"/", "/", 1)
		if pod, container, _ := strings.Cut(object, " "); strings.HasPrefix(pod, "Pod/") {
			object = strings.TrimSpace(random.ReplaceAllString(pod, "") + " " + container)
		}
		out[object] += e.Message + "\n"
	}
	return out
}

// random is what controllers append to the names of their pods.
var random = regexp.MustCompile(`(-[a-f0-9]{6,10})?-[a-z0-9]{5}$`)

// What a hook's Job says is in the run's log, whether it succeeds or fails.
func TestTailOfHooks(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	for name, tc := range map[string]struct{ args, says string }{
		"one that succeeds": {"[--help]", "-answer-for"},
		"one that fails":    {"[--no-such-flag]", `level=ERROR msg="bad flags"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			out := runPlan(t, lab, ns, "\n- name: s\n  timeout: 3m\n  helm: {chart: "+chartOf(t, hookJob(tc.args))+", release: NS, namespace: NS}\n")
			require.Equal(t, tc.args == "[--help]", out.err == nil)
			require.Contains(t, out.logs(ns)["Pod/hook container hook"], tc.says)
		})
	}
}

// hookJob is the template of a hook.
func hookJob(args string) map[string]string {
	return map[string]string{"hook.yaml": `
apiVersion: batch/v1
kind: Job
metadata:
  name: hook
  annotations: {helm.sh/hook: pre-install, helm.sh/hook-delete-policy: before-hook-creation}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers: [{name: hook, image: ` + labtest.OperatorImage + `, args: ` + args + `}]
`}
}

// Why the pods of a Deployment do not run is told while it is waited for, with what
// they said last, and the error's hint says it in words.
func TestTailOfWaits(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	for name, tc := range map[string]struct {
		container string
		trouble   string // in progress
		log       map[string]string
		hint      string
	}{
		"an image that is not there": {
			"{name: c, image: localhost:1/none:v1}", "ImagePullBackOff",
			map[string]string{"Pod/web": "Warning Failed: "},
			"the node cannot fetch the container's image",
		},
		"a container that crashes": {
			"{name: c, image: " + labtest.OperatorImage + ", args: [--no-such-flag]}", "CrashLoopBackOff",
			map[string]string{"Pod/web container c": `level=ERROR msg="bad flags"`, "Pod/web": "Warning BackOff: "},
			"its log says why|the program ended",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ns := lab.Namespace(t)
			out := runPlan(t, lab, ns, `
- name: web
  timeout: 30s
  webhooks: {hold: false}
  helm: {chart: `+chartOf(t, map[string]string{"web.yaml": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  minReadySeconds: 5
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [` + tc.container + `]}
`})+`, release: NS, namespace: NS}
`)
			require.ErrorContains(t, out.err, tc.trouble, "what is wrong belongs in the error")
			require.NotContains(t, runner.HintOf(out.err), tc.trouble, "and is not told twice")
			var told []string
			for _, e := range out.of(runner.TypeProgress) {
				told = append(told, e.Message)
			}
			require.Contains(t, strings.Join(told, "\n"), "; pod web-")
			require.Contains(t, strings.Join(told, "\n"), tc.trouble)
			logs := out.logs(ns)
			for object, says := range tc.log {
				require.Contains(t, logs[object], says, "%v", logs)
			}
			require.Regexp(t, tc.hint, out.execution.Step("web").Hint)
		})
	}
}

// The pods behind a webhook that holds requests tell why it does not answer.
func TestTailOfWebhooks(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	out := runPlan(t, lab, ns, `
- name: race
  helm: {chart: CHARTS/race, release: NS, namespace: NS, values: {listenDelay: 8s, operator: {crash: 1, crashAfter: 1s}}}
`)
	require.NoError(t, out.err)
	require.Contains(t, out.logs(ns)["Pod/"+ns+" container operator"], "crash 1 of 1, as asked by --crash", "%v", out.logs(ns))
	for _, e := range out.of(runner.TypeLog) {
		if e.Object != "" {
			require.Contains(t, []string{"Service/" + ns + "/" + ns + "-webhook", "Deployment/" + ns + "/" + ns}, e.Of)
		}
	}
	var words []string
	for _, e := range append(out.of(runner.TypeHeld), out.of(runner.TypeWebhook)...) {
		words = append(words, e.Webhook.Explanation)
	}
	require.NotEmpty(t, strings.Join(words, ""), "held requests are explained")
}

// Who may not read pods and events is told so once, and the step goes on.
func TestTailTakesNoRights(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	client := lab.Clientset(t)
	_, err := client.RbacV1().Roles(ns).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "jobs"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"*"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().RoleBindings(ns).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "jobs"}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: "jobs"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "ci", Namespace: ns}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	p, err := load.Parse("plan.yaml", []byte(`
apiVersion: kplan.dev/v1alpha1
kind: Plan
metadata: {name: test}
defaults: {timeout: 3m}
steps:
  - name: job
    apply:
      objects:
        - {apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: `+ns+`}, spec: {template: {spec: {
            restartPolicy: Never, containers: [{name: c, image: `+labtest.OperatorImage+`, args: [--help]}]}}}}
  - name: done
    needs: [job]
    wait: {resource: job/j, namespace: `+ns+`, for: condition=Complete}
`), load.Options{})
	require.NoError(t, err)
	flags := lab.Flags()
	flags.Impersonate = new("system:serviceaccount:" + ns + ":ci")
	s, err := steps.New(t.Context(), steps.Config{Plan: p, Flags: flags, UserAgent: "kplan-test"})
	require.NoError(t, err)
	defer s.Close()
	out := &run{}
	_, err = (&runner.Runner{Resolve: s.Resolve, Observers: []runner.Observer{out}}).Run(t.Context(), p)

	require.NoError(t, err)
	said := out.logs(ns)[""]
	require.Equal(t, 1, strings.Count(said, "pods in namespace "+ns+" are not shown: "), said)
	require.Equal(t, 1, strings.Count(said, "events in namespace "+ns+" are not shown: "), said)
}

// A tail keeps nothing waiting: a step that was stopped ends at once.
func TestTailEndsWithTheStep(t *testing.T) {
	t.Parallel()
	lab := labtest.Node(t)
	lab.Operator(t)
	ns := lab.Namespace(t)
	began := time.Now()
	out := runPlan(t, lab, ns, "\n- name: s\n  timeout: 8s\n  helm: {chart: "+chartOf(t, hookJob("[--run=webhook]"))+", release: NS, namespace: NS}\n")
	require.Error(t, out.err)
	require.Less(t, time.Since(began), time.Minute)
}
