package helmfile

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
)

// hosted is an address of a repository that a plan can have: Helm's plugins have others,
// such as git+https://HOST/REPOSITORY@FOLDER and s3://BUCKET. An expression may be one.
var hosted = regexp.MustCompile(`^(https?|oci)://|^\$\{\{`)

// readRepositories declares the repositories of a helmfile.
func (st *state) readRepositories() {
	for _, v := range st.all("repositories") {
		name := v.Get("name").Text()
		label := foreign.Label(name)
		address := v.Get("url").Text()
		oci := v.Get("oci").Or(false)
		if label == "" || address == "" || hasUnknown(address) {
			v.Lost("declare it under repositories of the plan", "the repository %q is not imported: its address is not known here", name)
			continue
		}
		if oci && !strings.Contains(address, "://") {
			address = "oci://" + address
		}
		var r foreign.Fields
		if !hosted.MatchString(address) {
			st.byPlugin[name] = true
			v.Get("url").Lost("clone it and name the folders of its charts in helm.chart", "the repository %s is fetched by a plugin of Helm, which kplan does not have", name)
			continue
		}
		st.aliases[name] = label
		r.Set("url", address)
		st.login(&r, v, name)
		for _, file := range [][2]string{{"caFile", "ca_file"}, {"certFile", "cert_file"}, {"keyFile", "key_file"}} {
			if name := v.Get(file[0]).Text(); name != "" {
				r.Set(file[1], st.path(name))
			}
		}
		for _, flag := range [][2]string{{"passCredentials", "pass_credentials"}, {"skipTLSVerify", "insecure_skip_tls_verify"}} {
			if v.Get(flag[0]).Or(false) {
				r.Set(flag[1], true)
			}
		}
		if v.Get("plainHttp").Or(false) && oci {
			r.Set("plain_http", true)
		}
		if was := st.plan.Repositories.Value(label); was != nil && field(was, "url").Value != address {
			v.Lost("name one of them otherwise", "there are two repositories %q, and this one is not imported", name)
			continue
		}
		st.plan.Repositories.Set(label, &r)
	}
}

// login makes a sensitive variable of a password. What the file has in plain text is not
// copied.
func (st *state) login(r *foreign.Fields, v *foreign.Value, name string) {
	user, password := v.Get("username"), v.Get("password")
	if !user.Given() && !password.Given() {
		return
	}
	// Helmfile reads NAME_USERNAME and NAME_PASSWORD where the file gives none
	// (pkg/state/state.go, gatherUsernamePassword).
	env := strings.ToUpper(strings.ReplaceAll(foreign.Identifier(name), "-", "_")) + "_PASSWORD"
	text := password.Text()
	if code, ok := foreign.OnlyExpr(text); ok {
		if id, isVar := strings.CutPrefix(code, "vars."); isVar {
			if env, known := st.vars[id]; known {
				f := st.plan.Var(id, "password of the repository "+name)
				f.Set("env", env.env)
				f.Set("sensitive", true)
				r.Set("username", cmp.Or(user.Text(), "USERNAME"))
				r.Set("password", text)
				return
			}
		}
	}
	id := st.plan.Secret(foreign.Identifier(name+"_password"), "password of the repository "+name)
	st.plan.Var(id, "").Set("env", env)
	if password.Given() {
		st.result.Add(foreign.SecretAt(password, id))
	}
	r.Set("username", cmp.Or(user.Text(), "USERNAME"))
	r.Set("password", foreign.Expr("vars."+id))
}

// path is a path of the helmfile as the plan has it. One that begins with a variable may
// be absolute.
func (st *state) path(name string) string {
	if foreign.BeginsWithExpr(name) && st.in.FromPlan(st.name) == "./"+path.Base(st.name) {
		return name
	}
	return st.in.FromPlan(foreign.Beside(st.name, name))
}
