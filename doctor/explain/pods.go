package explain

import (
	"regexp"

	"github.com/kplan-dev/kplan/webhook"
)

// pods are events of kubelet and the scheduler (kubernetes/kubernetes pkg/kubelet, pkg/scheduler).
var pods = []rule{
	{
		id: "secret-not-mounted", class: Missing,
		has:     []string{"mountvolume.setup failed", "references non-existent secret key"},
		pattern: regexp.MustCompile(`MountVolume\.SetUp failed for volume "(?P<volume>[^"]+)" ?: (?:secrets? "(?P<secret>[^"]+)" not found|references non-existent secret key)`),
		what:    "a pod waits for Secret {secret}, which it mounts as volume {volume} and which does not exist",
		about:   []webhook.Object{{Kind: "Secret", Namespace: "{namespace}", Name: "{secret}"}},
		causes: []string{
			"cert-manager fills it from a Certificate that is not ready: its issuer is missing or not ready, or cert-manager is not installed",
			"a Job of the chart makes it, and has not run or failed",
			"nobody makes it: it is to be made by hand, or has another name",
		},
		next: []string{
			"kubectl get certificates,certificaterequests -n {namespace}", "kubectl get jobs -n {namespace}",
			"kubectl get secret {secret} -n {namespace}",
		},
	},
	{
		id: "configmap-not-mounted", class: Missing,
		has:     []string{"mountvolume.setup failed"},
		pattern: regexp.MustCompile(`MountVolume\.SetUp failed for volume "(?P<volume>[^"]+)" ?: configmap "(?P<configmap>[^"]+)" not found`),
		what:    "a pod waits for ConfigMap {configmap}, which it mounts as volume {volume} and which does not exist",
		about:   []webhook.Object{{Kind: "ConfigMap", Namespace: "{namespace}", Name: "{configmap}"}},
		causes:  []string{"it comes later in the same install, or is made by an operator that is not up yet", "it has another name, or is in another namespace"},
		next:    []string{"kubectl get configmap {configmap} -n {namespace}"},
	},
	{
		id: "volume-not-mounted", class: Failed,
		has:     []string{"mountvolume.setup failed", "unable to attach or mount volumes", "failedattachvolume"},
		pattern: regexp.MustCompile(`MountVolume\.SetUp failed for volume "(?P<volume>[^"]+)"|Unable to attach or mount volumes|FailedAttachVolume`),
		what:    "a node cannot prepare a pod's volume[ {volume}]",
		causes:  []string{"what is mounted does not exist yet", "the storage driver is missing, or another node still has the volume"},
		next:    []string{"kubectl get events -n {namespace} --sort-by=.lastTimestamp", "kubectl get pvc,volumeattachments -A"},
	},
	{
		id: "image-not-pulled", class: Failed,
		has:     []string{"failed to pull image", "back-off pulling image", "errimagepull", "imagepullbackoff", "invalidimagename", "failed to pull and unpack image"},
		pattern: regexp.MustCompile(`(?:[Ff]ailed to pull (?:and unpack )?image|Back-off pulling image) "(?P<image>[^"\s]+)"|ErrImagePull|ImagePullBackOff|InvalidImageName`),
		what:    "a node cannot fetch the image[ {image}]",
		about:   []webhook.Object{{Kind: "Image", Name: "{image}"}},
		causes: []string{
			"the image or its tag does not exist, or not for the node's architecture",
			"the registry wants a login (imagePullSecrets), or allows no more requests",
			"a firewall or proxy keeps the nodes from the registry",
		},
		next: []string{"kubectl get events -A --field-selector reason=Failed", "kubectl get pods -A -o wide"},
	},
	{
		id: "pod-crashes", class: Failed,
		has:    []string{"back-off restarting failed container", "crashloopbackoff"},
		what:   "the program of a container ends soon after each start",
		causes: []string{"it meets an error as it starts: the log of its last run says which", "it takes more memory than its limit allows"},
		next:   []string{"kubectl logs POD -n {namespace} --previous --all-containers", "kubectl describe pod POD -n {namespace}"},
	},
	{
		id: "unschedulable", class: Exhausted,
		has:     []string{"nodes are available"},
		pattern: regexp.MustCompile(`\d+/\d+ nodes are available: (?P<reason>[^"]*)`),
		what:    "no node may run the pod",
		causes: []string{
			"no node has the memory, CPU or devices left that the pod requests",
			"the pod wants nodes with labels, or without taints, that there are none of",
			"its volume is bound to nodes that have no room",
		},
		next: []string{"kubectl describe pod POD -n {namespace}", "kubectl describe nodes"},
	},
}
