package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Jobs, for the hook Jobs and init containers of charts.
const (
	jobMakeCert = "make-cert" // fills the certificate Secret, unless it is filled
	jobInject   = "inject"    // puts the Secret's CA into the first webhooks, by index
	jobCheckAPI = "check-api" // asks cert-manager's webhooks, as cmctl does
	jobVerify   = "verify"    // looks for a chart in a repository
	jobAwait    = "await"     // waits until a file has content
)

const jobInterval = 200 * time.Millisecond

var jobs = map[string]func(context.Context, *operator) error{
	jobMakeCert: func(ctx context.Context, o *operator) error { return certSource{o}.create(ctx) },
	jobInject:   injectFirst,
	jobCheckAPI: checkAPI,
	jobVerify:   verifyChart,
	jobAwait:    awaitFile,
}

// injectFirst patches as many webhooks as --inject-to says, by index, and leaves
// the others without a CA, as the Job of Dynamo's chart does (ai-dynamo/dynamo:
// components/operator/templates/webhook-ca-inject-job.yaml).
func injectFirst(ctx context.Context, o *operator) error {
	return poll(ctx, 5*time.Minute, func() error {
		p, _, err := certSource{o}.read(ctx)
		if err != nil {
			return err
		}
		if len(p.ca) == 0 {
			return fmt.Errorf("ca.crt not found in secret %s", o.cfg.CertSecret)
		}
		var patch []map[string]any
		for i := range o.cfg.InjectTo {
			patch = append(patch, map[string]any{
				"op":    "add",
				"path":  fmt.Sprintf("/webhooks/%d/clientConfig/caBundle", i),
				"value": base64.StdEncoding.EncodeToString(p.ca),
			})
		}
		text, err := json.Marshal(patch)
		if err != nil {
			return err
		}
		for _, name := range o.cfg.InjectWebhooks {
			if _, err := o.client.Resource(validatingResource).Patch(ctx, name, types.JSONPatchType, text, metav1.PatchOptions{}); err != nil {
				return err
			}
			o.log.Info("CA injected", "configuration", name)
		}
		return nil
	})
}

// checkAPI creates a CertificateRequest by dry run until cert-manager's webhook
// has written into it who asks (cert-manager: pkg/util/cmapichecker).
func checkAPI(ctx context.Context, o *operator) error {
	requests := o.client.Resource(schema.GroupVersionResource{Group: groupCertManager, Version: "v1", Resource: "certificaterequests"})
	return poll(ctx, time.Minute, func() error {
		got, err := requests.Namespace(o.cfg.Namespace).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": groupCertManager + "/v1",
			"kind":       "CertificateRequest",
			"metadata":   map[string]any{"generateName": "cmapichecker-"},
			"spec": map[string]any{
				"request":   base64.StdEncoding.EncodeToString([]byte("a stand-in asks a stand-in")),
				"issuerRef": map[string]any{"name": "cmapichecker"},
			},
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err
		}
		if field(got.Object, "spec", "username") == "" {
			return errors.New("the mutating webhook is missing")
		}
		o.log.Info("the cert-manager API is ready")
		return nil
	})
}

// verifyChart fails for the charts of --missing. It does not pull anything: the
// lab has no network.
func verifyChart(_ context.Context, o *operator) error {
	if o.cfg.Missing.has(o.cfg.Chart) {
		return fmt.Errorf("chart %s does not exist or cannot be pulled", o.cfg.Chart)
	}
	o.log.Info("chart exists", "chart", o.cfg.Chart)
	return nil
}

func awaitFile(ctx context.Context, o *operator) error {
	return poll(ctx, 24*time.Hour, func() error {
		text, err := os.ReadFile(o.cfg.AwaitFile)
		if err == nil && len(text) == 0 {
			err = fmt.Errorf("%s is empty", o.cfg.AwaitFile)
		}
		return err
	})
}

// poll tries f until it succeeds or the time is over.
func poll(ctx context.Context, bound time.Duration, f func() error) error {
	var last error
	_ = wait.PollUntilContextTimeout(ctx, jobInterval, bound, true, func(context.Context) (bool, error) {
		last = f()
		return last == nil, nil
	})
	return last
}
