package examples_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/kplan-dev/kplan/internal/labtest"
)

// runDynamo runs the plan with a certificate of one kind, and checks that every
// webhook got a CA.
func runDynamo(t *testing.T, lab *labtest.Lab, certificates string) {
	t.Helper()
	const namespace = "dynamo-system"
	in := lab1("dynamo")
	in.Set = []string{"certificates=" + certificates}
	if certificates == "external" {
		in.Set = append(in.Set, "ca_bundle="+ownCertificate(t, lab, namespace))
	}
	runPlan(t, lab, "dynamo/plan.yaml", in, namespace)

	all := lab.Clientset(t).AdmissionregistrationV1().ValidatingWebhookConfigurations()
	conf, err := all.Get(t.Context(), "dynamo-platform-dynamo-operator-validating", metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, conf.Webhooks, 4)
	for _, w := range conf.Webhooks {
		require.NotEmpty(t, w.ClientConfig.CABundle, w.Name)
	}
}

// ownCertificate does what somebody with a PKI of their own does: it fills the
// webhook's Secret, and gives the CA.
func ownCertificate(t *testing.T, lab *labtest.Lab, namespace string) string {
	t.Helper()
	core := lab.Clientset(t).CoreV1()
	_, err := core.Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	// The certificate, and the CA after it.
	chain, key, err := cert.GenerateSelfSignedCertKey("dynamo-platform-dynamo-operator-webhook-service."+namespace+".svc", nil, nil)
	require.NoError(t, err)
	both, err := cert.ParseCertsPEM(chain)
	require.NoError(t, err)
	ca, err := cert.EncodeCertificates(both[1])
	require.NoError(t, err)
	_, err = core.Secrets(namespace).Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "webhook-server-cert"},
		Data:       map[string][]byte{"tls.crt": chain, "tls.key": key, "ca.crt": ca},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(ca)
}
