package explain

import (
	"regexp"

	"github.com/kplan-dev/kplan/webhook"
)

// registry is the host of a registry or repository in a URL.
const registry = `https?://(?P<registry>[\w.-]+(?::\d+)?)/`

// charts are refusals of chart registries and repositories (oras.land/oras-go, containerd's
// resolver, and helm.sh/helm pkg/repo and pkg/downloader). They are tried before errors of
// API servers, whose words they share.
var charts = []rule{
	{
		id: "registry-refused", class: Forbidden,
		has:     []string{"40", "failed to authorize", "denied: "},
		pattern: regexp.MustCompile(`^.*?(?:request to |(?:GET|HEAD|POST|Get|Head|Post) ")` + registry + `[^\s"]*"?: (?:.*response status code |.*)40[13]\b|^.*?failed to (?:authorize|fetch anonymous token|fetch oauth token)|^.*?failed to fetch https?://(?P<registry2>[\w.-]+)\S* : 40[13]`),
		what:    "the registry[ {registry}] refused to give the chart",
		about:   []webhook.Object{{Kind: "Registry", Name: "{registry}"}},
		causes: []string{
			"it wants a login, and got none, or an expired one: some refuse an old login even for what is public",
			"the name of the chart is wrong: many registries refuse what does not exist",
		},
		next: []string{"helm registry login {registry}", "helm pull oci://{registry}/CHART --version VERSION --debug"},
	},
	{
		id: "chart-not-found", class: Missing,
		has: []string{
			"no chart version found", "no chart name found", "not found in ", "failed to download \"", "is not a valid chart repository",
			"no cached repo found", "manifests/", "non-absolute urls", "invalid chart reference", "no repository definition", "repo ",
		},
		pattern: regexp.MustCompile(`chart "(?P<chart>[\w./-]+)" (?:matching \S+ |version "(?P<version>[^"]+)" )?not found in|no chart (?:version|name) found for (?P<chart2>[\w./-]+)|failed to download "(?P<chart3>[^"]+)"(?: at version "(?P<version2>[^"]+)")?|looks like "(?P<repo>[^"]+)" is not a valid chart repository or cannot be reached|no cached repo found|` + registry + `\S*manifests/\S*"?: (?:.*404|not found)|registry\S*: not found|invalid chart reference|no repository definition for|[Ee]rror: repo (?P<repo2>[\w.-]+) not found`),
		what:    "the chart[ {chart}][ {version}] was not found, or its repository cannot be reached; no cluster was asked",
		about:   []webhook.Object{{Kind: "Chart", Name: "{chart}"}, {Kind: "Registry", Name: "{registry}"}},
		causes: []string{
			"the name or version of the chart is wrong, or was withdrawn",
			"the repository is not added on this machine, or its index is old",
			"the repository cannot be reached, or moved: many charts are in OCI registries only now",
		},
		next: []string{"helm repo update", "helm search repo {chart} --versions", "helm show chart CHART --version VERSION"},
	},
	{
		id: "registry-unreachable", class: Unavailable,
		has:     []string{"/v2/", "index.yaml", "manifests/"},
		pattern: regexp.MustCompile(`"?` + registry + `(?:v2/|\S*index\.yaml)[^\s"]*"?: (?:dial tcp|x509|tls|net/http|EOF|context deadline|read tcp|http: server gave|proxyconnect|remote error)`),
		what:    "the registry or repository {registry} cannot be reached",
		about:   []webhook.Object{{Kind: "Registry", Name: "{registry}"}},
		causes: []string{
			"a proxy or firewall is between, or DNS does not know the host",
			"its certificate is of an authority that this machine does not trust",
		},
		next: []string{"helm pull oci://{registry}/CHART --version VERSION --debug"},
	},
}
