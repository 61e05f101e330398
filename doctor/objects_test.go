package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/webhook"
)

func TestBackoff(t *testing.T) {
	for attempts, hours := range map[int64]int{0: 1, 1: 1, 2: 2, 3: 4, 5: 16, 6: 32, 7: 32, 100: 32} {
		require.Equal(t, time.Duration(hours)*time.Hour, backoff(attempts), "after %d attempts", attempts)
	}
}

// Of a log no more is quoted than what the API server says about the refusal.
func TestForbidden(t *testing.T) {
	for _, tt := range []struct{ log, verb, resource, group string }{
		{
			`Error from server (Forbidden): secrets "tls" is forbidden: User "system:serviceaccount:a:hook" cannot get resource "secrets" in API group "" in the namespace "a"`,
			"get", "secrets", "",
		},
		{
			`password=hunter2 User "system:serviceaccount:a:hook" cannot patch resource "validatingwebhookconfigurations" in API group "admissionregistration.k8s.io" at the cluster scope`,
			"patch", "validatingwebhookconfigurations", "admissionregistration.k8s.io",
		},
		{`User "system:serviceaccount:a:hook" cannot create resource "pods/exec" in API group "" in the namespace "a": RBAC: role.rbac.authorization.k8s.io "hook" not found`, "create", "pods/exec", ""},
	} {
		match := forbidden.FindStringSubmatch(tt.log)
		require.Equal(t, []string{"system:serviceaccount:a:hook", tt.verb, tt.resource, tt.group}, match[1:], tt.log)
		require.NotContains(t, match[0], "hunter2")
	}
	for _, log := range []string{"", "403 Forbidden", `User "jane" cannot get resource "secrets" in API group ""`, "the door is forbidden"} {
		require.Nil(t, forbidden.FindStringSubmatch(log), log)
	}
}

func TestUsages(t *testing.T) {
	for name, tt := range map[string]struct {
		pod  string
		want []string
	}{
		"volumes": {
			`spec: {volumes: [{name: a, secret: {secretName: s}}, {name: b, configMap: {name: m}}, {name: c, projected: {sources: [{secret: {name: p}}, {configMap: {name: q}}]}}, {name: d, emptyDir: {}}]}`,
			[]string{"Secret/ns/s", "ConfigMap/ns/m", "Secret/ns/p", "ConfigMap/ns/q"},
		},
		"environment": {
			`spec: {initContainers: [{name: i, envFrom: [{secretRef: {name: s}}, {configMapRef: {name: m}}]}], containers: [{name: c, env: [{name: A, valueFrom: {secretKeyRef: {name: t, key: k}}}, {name: B, value: b}]}]}`,
			[]string{"Secret/ns/s", "ConfigMap/ns/m", "Secret/ns/t"},
		},
		"what is optional": {
			`spec: {volumes: [{name: a, secret: {secretName: s, optional: true}}], containers: [{name: c, envFrom: [{configMapRef: {name: m, optional: true}}]}]}`, nil,
		},
		"a pull secret that is not needed": {
			`{spec: {imagePullSecrets: [{name: s}]}, status: {containerStatuses: [{name: c, state: {waiting: {reason: ContainerCreating}}}]}}`, nil,
		},
		"a pull secret of an image that cannot be pulled": {
			`{spec: {imagePullSecrets: [{name: s}]}, status: {containerStatuses: [{name: c, image: i, state: {waiting: {reason: ImagePullBackOff, message: "401 Unauthorized"}}}]}}`,
			[]string{"Secret/ns/s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{}
			require.NoError(t, yaml.Unmarshal([]byte(tt.pod), p))
			p.Namespace = "ns"
			var got []string
			for _, u := range usages(p) {
				got = append(got, u.of.String())
			}
			require.Equal(t, tt.want, got)
		})
	}
}

// What runs a program is named like it, as far as its field manager tells.
func TestServing(t *testing.T) {
	certManager := workload{Object: webhook.Object{Name: "cert-manager"}, release: "cert-manager/cert-manager", programs: []string{"cert-manager", "cert-manager-controller"}}
	injector := workload{Object: webhook.Object{Name: "injector"}, release: "cert-manager/cert-manager", programs: []string{"injector"}}
	other := workload{Object: webhook.Object{Name: "other"}, programs: []string{"other", "manager", "certs"}}
	workloads := []workload{certManager, injector, other}
	for _, tt := range []struct {
		release, program string
		want             []workload
	}{
		{"cert-manager/cert-manager", "cert-manager-challenges", []workload{certManager}},
		{"cert-manager/cert-manager", "", []workload{certManager, injector}},
		{"cert-manager/cert-manager", "unheard-of", []workload{certManager, injector}},
		{"", "cert-manager-challenges", []workload{certManager}},
		{"gone/gone", "other", []workload{other}},
		{"", "manager", nil},
		{"", "", nil},
	} {
		require.Equal(t, tt.want, serving(workloads, tt.release, tt.program), "%s of %s", tt.program, tt.release)
	}
}
