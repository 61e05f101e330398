package hold_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kplan-dev/kplan/webhook/hold"
)

// A client creates an object whose webhook answers late. It sees one slow
// request; what happened meanwhile is told to Notify.
func Example() {
	server := httptest.NewServer(&lateWebhook{refusals: 2})
	defer server.Close()

	gate := hold.NewGate(nil) // with a survey of the cluster it is woken by changes
	config := &rest.Config{Host: server.URL}
	config.Wrap(func(base http.RoundTripper) http.RoundTripper {
		return &hold.Transport{Base: base, Gate: gate, Notify: func(n hold.Notice) {
			fmt.Println(n.Event, n.Request, "by", n.Fault.Webhook)
		}}
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		fmt.Println(err)
		return
	}

	rules := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "rules", Namespace: "demo"}}
	created, err := client.CoreV1().ConfigMaps("demo").Create(context.Background(), rules, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("created", created.Name)
	// Output:
	// held ConfigMap/demo/rules by rules.example.io
	// released ConfigMap/demo/rules by rules.example.io
	// created rules
}

// lateWebhook answers as an API server whose webhook does not listen yet.
type lateWebhook struct{ refusals int }

func (s *lateWebhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if s.refusals > 0 {
		s.refusals--
		status := apierrors.NewInternalError(errors.New(`failed calling webhook "rules.example.io": failed to call webhook: ` +
			`Post "https://operator.demo.svc:443/validate?timeout=10s": dial tcp 10.96.0.9:443: connect: connection refused`)).Status()
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		w.WriteHeader(int(status.Code))
		_ = json.NewEncoder(w).Encode(status)
		return
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Name: "rules", Namespace: "demo"},
	})
}
