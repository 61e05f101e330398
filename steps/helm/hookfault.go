package helm

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// hookError is the failure of a hook, of which what its program said last may tell more.
type hookError struct {
	error
	values map[string]any
}

func (e *hookError) Unwrap() error { return e.error }

// OfLog implements the interface that package podlog looks for: it says what the last
// lines of the hook's log mean, and "" when it does not know. It goes by what programs
// say that fetch charts and ask API servers, and by the release's values.
func (e *hookError) OfLog(lines []string) string {
	if account := unauthorized(lines); account != "" {
		return account
	}
	return missingChart(lines, e.values)
}

// refused is what an API server says of a right that an account lacks
// (k8s.io/apiserver pkg/endpoints/handlers/responsewriters/errors.go).
var refused = regexp.MustCompile(`User "system:serviceaccount:([^:"]+):([^"]+)" cannot (\S+) resource "([^"]+)"(?: in API group "([^"]*)")?`)

// unauthorized says which right a hook's service account lacks.
func unauthorized(lines []string) string {
	for _, line := range slices.Backward(lines) {
		if m := refused.FindStringSubmatch(strings.ReplaceAll(line, `\"`, `"`)); m != nil {
			resource := m[4]
			if m[5] != "" {
				resource += "." + m[5]
			}
			return fmt.Sprintf("the hook's service account %s/%s has no right to %s %s", m[1], m[2], m[3], resource)
		}
	}
	return ""
}

var (
	// chartRef is NAME:VERSION with what may stand before it, as registries and their
	// clients write it.
	chartRef = regexp.MustCompile(`(?:(?:oci://)?([a-zA-Z0-9.-]+(?::[0-9]+)?(?:/[a-z0-9._-]+)*)/)?([a-z0-9][a-z0-9._-]*):(v?[0-9]+\.[0-9]+\.[0-9]+[-+.0-9A-Za-z]*)`)
	// chartIn is how Helm says that an HTTP repository does not have a chart
	// (helm.sh/helm/v3 pkg/repo/chartrepo.go).
	chartIn = regexp.MustCompile(`chart "([^"]+)" (?:matching |version "?)([^" ]+)"? not found in (\S+)`)
)

// Words that say why a chart was not fetched, in the lines of programs that do so.
var (
	absentWords      = []string{"not found", "does not exist", "manifest unknown", "name unknown", "404"}
	credentialWords  = []string{"401", "403", "unauthorized", "Unauthorized", "authorize", "denied", "Forbidden"}
	unreachableWords = []string{"connection refused", "no such host", "i/o timeout", "connection reset", "no route to host", "x509:", "TLS handshake", "cannot be reached"}
)

// missingChart says which chart a hook's program did not find, in which repository. The
// chart is named by the lines, the repository by them or by the release's values. Lines
// that tell of credentials or of the network are no proof that a chart is missing.
func missingChart(lines []string, values map[string]any) string {
	has := func(words []string) bool {
		return slices.ContainsFunc(lines, func(l string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(l, w) })
		})
	}
	why := "is not in"
	switch {
	case has(unreachableWords):
		why = "cannot be had: nobody answers at"
	case has(credentialWords):
		why = "cannot be had: no access to"
	case !has(absentWords):
		return ""
	}
	for _, line := range slices.Backward(lines) {
		if m := chartIn.FindStringSubmatch(line); m != nil {
			return fmt.Sprintf("chart %s:%s %s %s", m[1], m[2], why, m[3])
		}
	}
	known, repositories := leaves(values)
	for _, line := range slices.Backward(lines) {
		for _, m := range chartRef.FindAllStringSubmatch(line, -1) {
			name, repository := m[2]+":"+m[3], m[1]
			if !slices.Contains(known, name) && !strings.Contains(strings.ToLower(line), "chart") {
				continue // another thing with a version, such as an image
			}
			switch {
			case repository != "":
				repository = "oci://" + repository
			case len(repositories) == 1:
				repository = repositories[0]
			default:
				repository = "its repository"
			}
			return fmt.Sprintf("chart %s %s %s", name, why, repository)
		}
	}
	return ""
}

// leaves are the texts among values, and those of them that are addresses of
// repositories: of OCI ones, and where there is none of others. Passwords in
// addresses are left out.
func leaves(values any) (texts, repositories []string) {
	var oci, web []string
	var visit func(any)
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, k := range slices.Sorted(maps.Keys(v)) {
				visit(v[k])
			}
		case []any:
			for _, x := range v {
				visit(x)
			}
		case string:
			texts = append(texts, v)
			u, err := url.Parse(v)
			if err != nil || u.Host == "" {
				return
			}
			u.User = nil
			switch address := strings.TrimSuffix(u.String(), "/"); u.Scheme {
			case "oci":
				oci = append(oci, address)
			case "http", "https":
				web = append(web, address)
			}
		}
	}
	visit(values)
	if len(oci) == 0 {
		oci = web
	}
	slices.Sort(oci)
	return texts, slices.Compact(oci)
}

// over are values over a chart's own, as Helm merges them: maps by key.
func over(values, own map[string]any) map[string]any {
	all := maps.Clone(own)
	if all == nil {
		all = map[string]any{}
	}
	for k, v := range values {
		below, isMap := all[k].(map[string]any)
		if m, ok := v.(map[string]any); ok && isMap {
			v = over(m, below)
		}
		all[k] = v
	}
	return all
}
