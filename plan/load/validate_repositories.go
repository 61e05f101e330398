package load

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/load/internal/names"
	"github.com/kplan-dev/kplan/plan/load/internal/value"
)

// checkRepositories looks at the plan's repositories.
func (v validator) checkRepositories() {
	for _, name := range slices.Sorted(maps.Keys(v.plan.Repositories)) {
		r, at := v.plan.Repositories[name], path{"repositories", name}
		if !names.IsLabel(name) {
			v.ReportField(fault{At: at, Hint: labelHint}, "%q cannot be the name of a repository", document.Cut(name, 80))
		}
		v.checkRepositoryURL(r, at.Key("url"))
		v.checkLogin(at)
		for field, file := range map[string]string{"ca_file": r.CAFile, "cert_file": r.CertFile, "key_file": r.KeyFile} {
			if file != "" && v.onDisk {
				fileFinder{v.pass}.glob(file, at.Key(field))
			}
		}
	}
}

func (v validator) checkRepositoryURL(r plan.Repository, at path) {
	v.checkText(at, "the address", "write https://HOST/PATH or oci://HOST/PATH")
	if r.URL == "" {
		return
	}
	u, err := url.Parse(r.URL)
	switch {
	case err != nil || u.Host == "" || !slices.Contains([]string{"https", "http", "oci"}, u.Scheme):
		v.Report(fault{At: at, Hint: "write https://HOST/PATH or oci://HOST/PATH"}, "%s is not the address of a repository", v.quote(r.URL, at))
	case u.User != nil:
		password, _ := u.User.Password()
		v.Secrets.Add(password)
		v.Report(fault{At: at, Hint: "write username and password beside it"}, "the address has a user in it")
	case r.PlainHTTP && u.Scheme != "oci":
		v.Report(fault{At: at, Hint: "write http:// in the address"}, "plain_http is for oci:// only")
	}
}

// checkLogin wants the two halves of what comes in pairs, and secrets from sensitive
// variables.
func (v validator) checkLogin(at path) {
	has := func(field string) bool { return v.has(at.Key(field)) }
	for _, pair := range [][2]string{{"password", "username"}, {"username", "password"}, {"key_file", "cert_file"}, {"cert_file", "key_file"}} {
		if has(pair[0]) && !has(pair[1]) {
			v.ReportField(fault{Code: document.CodeMissingField, At: at.Key(pair[0])}, "the field %q is missing beside %s", pair[1], pair[0])
		}
	}
	if has("token") && has("password") {
		v.ReportField(fault{At: at.Key("token"), Hint: "keep one of them"}, "the repository has both token and password")
	}
	for _, field := range []string{"password", "token"} {
		f := at.Key(field)
		if _, secret := v.secretAt[f.String()]; !has(field) || secret || value.IsUnsaid(v.value(f)) {
			continue
		}
		v.Secrets.Add(v.value(f)) // it is one all the same
		v.ReportField(fault{At: f, Hint: "declare a variable with sensitive: true and env, and write ${{ vars.NAME }}"}, "the %s is not made of a sensitive variable", field)
	}
}

// checkRepo looks whether the repository of a chart is one that the file has, or an
// address.
func (v stepValidator) checkRepo(h plan.Helm, at path) {
	if strings.HasPrefix(h.Repo, "https://") || strings.HasPrefix(h.Repo, "http://") || v.hasRepository(h.Repo) {
		return
	}
	hint := "write https://…, or the name of one of the plan's repositories"
	switch {
	case strings.HasPrefix(h.Repo, "oci://"):
		hint = "write chart: " + document.Cut(strings.TrimSuffix(h.Repo, "/")+"/"+h.Chart, 100) + " and no repo"
	case !strings.Contains(h.Repo, "://") && names.IsLabel(h.Repo):
		known := slices.Sorted(maps.Keys(v.plan.Repositories))
		hint = cmp.Or(v.near.Hint(h.Repo, known), "declare it under repositories")
		v.Report(fault{Code: document.CodeUnknownName, At: at, Hint: hint}, "there is no repository %q", document.Cut(h.Repo, 80))
		return
	}
	v.Report(fault{At: at, Hint: hint}, "%q is not the address of a chart repository", document.Cut(h.Repo, 80))
}

// checkVerify wants one way of verifying, which the chart's source has.
func (v stepValidator) checkVerify(h plan.Helm, at path) {
	if h.Verify == nil {
		return
	}
	keyring, cosign := v.has(at.Key("keyring")), v.has(at.Key("cosign"))
	switch archive := strings.HasSuffix(h.Chart, ".tgz") || strings.HasSuffix(h.Chart, ".tar.gz"); {
	case keyring && cosign:
		v.ReportField(fault{At: at.Key("cosign"), Hint: "keep one of them"}, "the chart is verified by both keyring and cosign")
	case !keyring && !cosign:
		v.ReportField(fault{Code: document.CodeMissingField, At: at, Hint: "give keyring or cosign"}, "it is not said who must have signed the chart")
	case h.IsLocal() && cosign:
		v.ReportField(fault{At: at.Key("cosign"), Hint: "use keyring"}, "cosign signs charts of OCI registries only")
	case h.IsLocal() && !archive:
		v.ReportField(fault{At: at.Key("keyring"), Hint: "package it: helm package --sign"}, "a folder has no signature")
	}
	v.checkText(at.Key("keyring"), "the path", "")
	v.checkText(at.Key("cosign").Key("key"), "the path", "")
	if v.onDisk {
		f := fileFinder{v.pass}
		f.glob(h.Verify.Keyring, at.Key("keyring"))
		if h.Verify.Cosign != nil {
			f.glob(h.Verify.Cosign.Key, at.Key("cosign").Key("key"))
		}
	}
}

// hasRepository reports whether the file has a repository.
func (v validator) hasRepository(name string) bool {
	_, ok := v.plan.Repositories[name]
	return ok
}

// hasAlias reports whether REPOSITORY/CHART is of one of the file's repositories.
func (f fileFinder) hasAlias(chart string) bool {
	alias, _, _ := strings.Cut(chart, "/")
	_, ok := f.plan.Repositories[alias]
	return ok
}

// repositoryName returns the name in the whole plan of one of the file's repositories.
func (c *file) repositoryName(name string) (string, bool) {
	if _, own := c.plan.Repositories[name]; own {
		return c.prefix + name, true
	}
	return name, false
}

// place names the repository of a chart as the whole plan does: an included plan has its
// own ones. NAME/CHART of one of them is chart and repo.
func (c *file) place(h *plan.Helm) *plan.Helm {
	if h == nil || h.IsLocal() || h.IsOCI() {
		return h
	}
	placed := *h
	if alias, chart, ok := strings.Cut(h.Chart, "/"); ok && h.Repo == "" {
		if name, own := c.repositoryName(alias); own {
			placed.Repo, placed.Chart = name, chart
		}
		return &placed
	}
	placed.Repo, _ = c.repositoryName(h.Repo)
	return &placed
}

// addRepositories adds the repositories of an included plan under the names that its
// steps have for them.
func (f *flattener) addRepositories(c *file) {
	if c.parent == nil {
		return
	}
	for name, r := range c.plan.Repositories {
		if f.repositories == nil {
			f.repositories = map[string]plan.Repository{}
		}
		for _, file := range []*string{&r.CAFile, &r.CertFile, &r.KeyFile} {
			if *file != "" {
				*file = c.plan.Abs(*file)
			}
		}
		f.repositories[c.prefix+name] = r
	}
}
