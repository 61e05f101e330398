package export

import (
	"cmp"
	"strings"

	"github.com/kplan-dev/kplan/plan"
)

// chart is where the chart of a helm step comes from.
type chart struct {
	// repository is the address of a chart repository, or of the folder of a registry.
	repository, name string
	// version is a version or a constraint; tag and digest are of a registry alone.
	version, digest string
	oci             bool
}

// chart says where the step's chart comes from, and what of that the engine has to be told in
// another way. It is nil of a chart on disk.
func (s *step) chart() *chart {
	h := s.Helm
	s.take("helm.chart", "helm.repo", "helm.version", "helm.plain_http")
	switch {
	case h.IsLocal():
		return nil
	case h.IsOCI():
		c := &chart{oci: true, version: h.Version}
		full, tag := h.OCITag()
		full, c.digest, _ = strings.Cut(full, "@")
		c.version = cmp.Or(c.version, tag)
		i := strings.LastIndexByte(full, '/')
		c.repository, c.name = full[:i], full[i+1:]
		s.login(full)
		return c
	}
	c := &chart{repository: h.Repo, name: h.Chart, version: h.Version}
	name := h.Repo
	if first, rest, is := strings.Cut(h.Chart, "/"); is && h.Repo == "" {
		name, c.name = first, rest
	}
	if named, known := s.plan.Repositories[name]; known {
		c.repository = strings.TrimSuffix(named.URL, "/")
		if c.oci = strings.HasPrefix(named.URL, "oci://"); c.oci {
			s.login(named.URL)
			return c
		}
	}
	if !strings.Contains(c.repository, "://") {
		s.lost(s.at("helm.chart"), "add it to repositories of the plan", "step %s: the address of the repository %s is not in the plan: correct it in what was written", s.Name, name)
		c.repository = "https://charts.example.com/" + name
	}
	s.login(c.repository)
	return c
}

// login tells of what the plan has besides the address of a repository.
func (s *step) login(address string) {
	best, covered := "", -1
	for name, r := range s.plan.Repositories {
		if n := r.Covers(address); n > covered || n == covered && n >= 0 && name < best {
			best, covered = name, n
		}
	}
	if covered < 0 {
		return
	}
	r := s.plan.Repositories[best]
	r.URL, r.PlainHTTP = "", false
	if r != (plan.Repository{}) {
		s.lost(s.inPlan("repositories", best), logins[s.target.Name], "the login of the repository %s is left out, and what the plan says of its certificates", best)
	}
}

var logins = map[string]string{
	"flux":   "put it into a Secret, and name that in spec.secretRef and spec.certSecretRef of the source",
	"argocd": "put it into a Secret with the label argocd.argoproj.io/secret-type: repository",
}

// plainHTTP reports whether the registry of an address is asked without TLS.
func (s *step) plainHTTP(address string) bool {
	if s.Helm.PlainHTTP {
		return true
	}
	for _, r := range s.plan.Repositories {
		if r.PlainHTTP && r.Covers(address) >= 0 {
			return true
		}
	}
	return false
}

// isConstraint reports whether a version is a constraint on versions.
func isConstraint(version string) bool {
	return strings.ContainsAny(version, "^~*<>=|, ") || strings.HasSuffix(version, ".x") || strings.HasSuffix(version, ".X")
}
