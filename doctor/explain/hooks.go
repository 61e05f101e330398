package explain

import (
	"regexp"

	"github.com/kplan-dev/kplan/webhook"
)

var job = []webhook.Object{{Kind: "Job", Namespace: "{namespace}", Name: "{job}"}}

// lookAtJob are commands that show why a Job does not end as it should.
var lookAtJob = []string{
	"kubectl describe job/{job} -n {namespace}", "kubectl logs job/{job} -n {namespace} --all-containers",
	"kubectl get pods -n {namespace} -l job-name={job}",
}

// hooks are errors of Jobs and of what Helm waits for (helm.sh/helm/v3 pkg/kube/client.go and
// ready.go; helm.sh/helm/v4 pkg/kube/statuswait.go, internal/statusreaders).
var hooks = []rule{
	{
		id: "job-failed", class: Failed,
		has:     []string{"backofflimitexceeded", "job is failed", "status: failed", "podfailurepolicy", "has reached the specified backoff limit"},
		pattern: regexp.MustCompile(`[Jj]ob (?:(?P<job>[\w.-]+) )?failed: (?:BackoffLimitExceeded|PodFailurePolicy)|[Jj]ob is failed: (?:(?P<namespace>[\w.-]+)/)?(?P<job2>[\w.-]+)|resource Job/(?:(?P<namespace2>[\w.-]*)/)?(?P<job3>[\w.-]+) not ready\. status: Failed|name: (?P<job4>[\w.-]+), kind: Job, status: Failed|BackoffLimitExceeded|has reached the specified backoff limit`),
		what:    "[hook {hook}: ]the pods of a Job failed as often as they may[: {job}]",
		about:   job,
		causes: []string{
			"the program in it ended with an error: its log says why",
			"its image cannot be fetched, or its ServiceAccount lacks rights",
			"what it talks to, such as a database or a webhook, is not up yet, and it may not try long enough (backoffLimit)",
		},
		next: lookAtJob,
	},
	{
		id: "job-deadline", class: Timeout,
		has:     []string{"deadlineexceeded", "was active longer than specified deadline"},
		pattern: regexp.MustCompile(`[Jj]ob (?:(?P<job>[\w.-]+) )?failed: DeadlineExceeded|Job was active longer than specified deadline`),
		what:    "[hook {hook}: ]a Job ran longer than its activeDeadlineSeconds allow[: {job}]",
		about:   job,
		causes: []string{
			"its pod cannot start: its image is not fetched, or a volume is missing",
			"it waits for something that is not there yet",
			"the time is too short for what it does",
		},
		next: lookAtJob,
	},
	{
		id: "job-unfinished", class: Timeout,
		has:     []string{"kind: job, status:", "resource job/", "job is not completed"},
		pattern: regexp.MustCompile(`resource Job/(?:(?P<namespace>[\w.-]*)/)?(?P<job>[\w.-]+) not ready\. status|name: (?P<job2>[\w.-]+), kind: Job, status|[Jj]ob is not completed: (?:(?P<namespace2>[\w.-]+)/)?(?P<job3>[\w.-]+)`),
		what:    "[hook {hook}: ]Job {job} did not end in the time that Helm waits",
		about:   job,
		causes: []string{
			"its pod cannot start: its image is not fetched, no node has room, or a volume is missing",
			"it waits for something that is not there yet, or for ever",
			"Helm's --timeout is too short for what it does",
		},
		next: lookAtJob,
	},
	{
		id: "object-unready", class: Timeout,
		has:     []string{"not ready. status:", "resource not ready, name:"},
		pattern: regexp.MustCompile(`resource (?P<kind>\w+)/(?:(?P<namespace>[\w.-]*)/)?(?P<name>[\w.-]+) not ready\. status|name: (?P<name2>[\w.-]+), kind: (?P<kind2>\w+), status`),
		what:    "{kind} {name} did not become ready in the time that Helm waits",
		about:   []webhook.Object{{Kind: "{kind}", Namespace: "{namespace}", Name: "{name}"}},
		causes: []string{
			"its pods cannot start: an image, a Secret or room on a node is missing",
			"its pods run, and their readiness probe says no",
			"--timeout is too short for it",
		},
		next: []string{"kubectl describe {kind}/{name} -n {namespace}", "kubectl get pods,events -n {namespace}"},
	},
	{
		id: "hook-timeout", class: Timeout,
		has:     []string{"timed out waiting for the condition", "context deadline exceeded"},
		pattern: regexp.MustCompile(`(?:(?:pre|post)-(?:install|upgrade|rollback|delete)).*(?:timed out waiting for the condition|context deadline exceeded)`),
		what:    "a {hook} hook of the chart did not end in the time that Helm waits; the error does not say which, nor why",
		about:   []webhook.Object{{Kind: "Hook", Name: "{hook}"}, {Kind: "Release", Namespace: "{namespace}", Name: "{release}"}},
		causes: []string{
			"the pod of the hook's Job cannot start: its image is not fetched, no node has room, or a Secret is missing",
			"the Job runs, and waits for something that is not up yet, such as a webhook",
			"Helm's --timeout is too short for it",
		},
		next: []string{"kubectl get jobs,pods -n {namespace}", "kubectl get events -n {namespace} --sort-by=.lastTimestamp", "helm get hooks {release} -n {namespace}"},
	},
}

// general are errors that say little: others of the same text say more.
var general = []rule{
	{
		id: "throttled", class: Overloaded, general: true,
		has:    []string{"client rate limiter", "too many requests"},
		what:   "requests are held back: the client, or the API server, allows no more of them",
		causes: []string{"the client sends more than it may; its time ran out while it waited", "the API server has more to do than it can"},
		next:   []string{"kubectl get --raw '/readyz?verbose'"},
	},
	{
		id: "timeout", class: Timeout, general: true,
		has:  []string{"timed out waiting for the condition", "context deadline exceeded", "timed out waiting for"},
		what: "what was waited for did not happen in time; the error does not say why",
		causes: []string{
			"pods of the release are not ready: an image, a Secret or room on a node is missing, or their readiness probe says no",
			"a volume, a load balancer or a custom resource was not provided",
			"the time that was given (--timeout) is too short",
		},
		next: []string{"kubectl get pods,pvc,jobs -n {namespace}", "kubectl get events -n {namespace} --sort-by=.lastTimestamp", "helm status {release} -n {namespace}"},
	},
	{
		id: "hook-failed", class: Failed, general: true,
		has:     []string{"hooks failed", "failed pre-", "failed post-", "hook pre-", "hook post-"},
		pattern: regexp.MustCompile(`(?P<hook>(?:pre|post)-(?:install|upgrade|rollback|delete))`),
		what:    "a {hook} hook of the chart failed",
		about:   []webhook.Object{{Kind: "Hook", Name: "{hook}"}, {Kind: "Release", Namespace: "{namespace}", Name: "{release}"}},
		causes:  []string{"the hook's Job or object failed: what follows in the error, or the Job's log, says why"},
		next:    []string{"kubectl get jobs,pods -n {namespace}", "helm get hooks {release} -n {namespace}"},
	},
	{
		id: "object-missing", class: Missing, general: true,
		has:     []string{"not found"},
		pattern: regexp.MustCompile(`\b(?P<resource>[a-z][\w.-]*) "(?P<name>[^"]+)" not found`),
		what:    "{resource} {name} does not exist",
		about:   []webhook.Object{{Kind: "{resource}", Name: "{name}"}},
		causes: []string{
			"what makes it was not installed, or has not made it yet",
			"it was deleted, or is in another namespace",
		},
		next: []string{"kubectl get {resource} -A"},
	},
	{
		id: "connection", class: Unavailable, general: true,
		has: []string{
			"connection refused", "i/o timeout", "no route to host", "no such host", "tls handshake timeout", "connection reset by peer",
			"network is unreachable", "client connection lost",
		},
		what:   "a server could not be reached; the error does not say that it is a webhook, nor whose it is",
		causes: []string{"the server does not run, or is starting", "a firewall, a proxy or DNS keeps from it"},
		next:   []string{"kubectl get pods,services,endpointslices -n {namespace}"},
	},
	{
		id: "certificate", class: Misconfigured, general: true,
		has:    []string{"x509: "},
		what:   "the certificate of a server is not accepted; the error does not say whose it is",
		causes: []string{"it is of an authority that the client does not know", "it is for another name, or no longer valid"},
		next:   []string{"kplan webhooks --failing"},
	},
}
