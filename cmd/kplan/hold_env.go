package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/cmd/kplan/internal/otlp"
	"github.com/kplan-dev/kplan/cmd/kplan/internal/report"
)

// bypasses are variables that win over the command's kubeconfig, or that make clients
// of it reach nothing: Helm's, those of Terraform's providers, kapp's, Ansible's and
// Skaffold's.
var bypasses = []string{
	"HELM_KUBEAPISERVER", "HELM_KUBETOKEN", "HELM_KUBECAFILE",
	"KUBE_HOST", "KUBE_TOKEN", "KUBE_PROXY_URL",
	"KAPP_KUBECONFIG", "KAPP_KUBECONFIG_YAML",
	"K8S_AUTH_KUBECONFIG", "K8S_AUTH_HOST",
	"SKAFFOLD_KUBECONFIG",
}

// noBypass refuses an environment that leads past the proxy.
func noBypass() error {
	for _, name := range bypasses {
		if os.Getenv(name) != "" {
			return &usageError{
				err:  fmt.Errorf("%s is set: whoever heeds it would go past the hold, or nowhere", name),
				hint: "unset it, and say where the command is to go by --kubeconfig, --context, --server or --token of kplan hold",
			}
		}
	}
	return nil
}

// unproxied keeps clients from asking a proxy of the network for an address of this
// machine. Go's do not; others need to be told. Some read the one name and some the
// other, so both get what the first one found has.
func unproxied() []string {
	proxies := []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"}
	if !slices.ContainsFunc(proxies, func(name string) bool { return os.Getenv(name) != "" || os.Getenv(strings.ToLower(name)) != "" }) {
		return nil
	}
	but := cmp.Or(os.Getenv("NO_PROXY"), os.Getenv("no_proxy"))
	if but != "*" { // which curl and Python know only alone
		but = strings.TrimPrefix(strings.TrimSuffix(but, ",")+",127.0.0.1,::1,localhost", ",")
	}
	return []string{"NO_PROXY=" + but, "no_proxy=" + but}
}

// traced are variables by which what the command traces is part of the trace that is
// written of the hold. When none is, the command has those that kplan has.
func (o *holdOptions) traced(run, step string) []string {
	if !slices.ContainsFunc(o.reports, func(f report.File) bool { return f.Kind == report.OTLP }) {
		return nil
	}
	return []string{"TRACEPARENT=" + otlp.NewIDs(run, otlp.ParentOf(os.Getenv)).Traceparent(step)}
}
