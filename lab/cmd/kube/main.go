//go:build kube

// Command kube is every part of a Kubernetes node in one binary: etcd, the
// API server, controller manager, scheduler, kubelet, kube-proxy and kubectl.
// The first argument, or the name it is called by, picks the part. Linking
// them once instead of seven times is what makes the lab quick to build.
//
// It adds nothing to the parts: flags, signals and exit codes are theirs.
//
// The build tag kube keeps it out of ./...: it takes minutes to compile, and
// kplan-lab builds it when it is needed.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // JSON logs on request
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client metrics of all parts
	_ "k8s.io/component-base/metrics/prometheus/version"  // build info metric
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// parts maps the name of each part to its entry; each returns an exit code.
var parts = map[string]func() int{
	"etcd":                    runEtcd,
	"kube-apiserver":          func() int { return cli.Run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return cli.Run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return cli.Run(scheduler.NewSchedulerCommand()) },
	"kube-proxy":              func() int { return cli.Run(proxy.NewProxyCommand()) },
	"kubelet":                 func() int { return cli.Run(kubelet.NewKubeletCommand(context.Background())) },
	"kubectl":                 runKubectl,
}

func main() {
	if run, ok := parts[filepath.Base(os.Args[0])]; ok {
		os.Exit(run())
	}
	if len(os.Args) > 1 {
		if run, ok := parts[os.Args[1]]; ok {
			os.Args = os.Args[1:]
			os.Exit(run())
		}
	}
	fmt.Fprintf(os.Stderr, "usage: kube PART [flags]\nparts: %v\n", slices.Sorted(maps.Keys(parts)))
	os.Exit(2)
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func runKubectl() int {
	command := kubectl.NewDefaultKubectlCommand()
	if err := cli.RunNoErrOutput(command); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}
