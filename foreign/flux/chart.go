package flux

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/foreign/internal/object"
)

// chart takes which chart a release is of.
func (im *importer) chart(r *release) {
	f, spec := &r.step.Fields, r.v.Get("spec")
	if ref := spec.Get("chartRef"); ref.Given() {
		im.chartRef(r, ref)
		return
	}
	c := spec.Get("chart", "spec")
	for _, name := range []string{"interval", "reconcileStrategy"} {
		c.Get(name).Take()
	}
	name, version := c.Get("chart").Text(), c.Get("version").Text()
	if version == "*" {
		version = ""
	}
	kind, source, o := im.source(c.Get("sourceRef"), r.objectNamespace)
	switch {
	case kind == "HelmRepository" && o != nil:
		f.Set("chart", im.repository(o)+"/"+name)
	case kind == "HelmRepository":
		f.Set("chart", cmp.Or(foreign.Label(source), "repository")+"/"+name)
		c.Get("sourceRef", "name").Changed("declare it under repositories of the plan", "the HelmRepository %s is not in the files: it has to be known by helm repo add", source)
	default:
		dir := im.resolve(r.v.File, name, []string{"Chart.yaml"})
		version = "" // of a folder it says nothing
		if dir != "" {
			f.Set("chart", im.in.FromPlan(dir))
			break
		}
		f.Set("chart", foreign.FillIn)
		hint := "check it out beside the plan, and name the folder of the chart in helm.chart"
		if url := sourceURL(o); url != "" {
			hint = "check out " + url + " beside the plan, and name the folder of the chart in helm.chart"
		}
		c.Get("chart").Lost(hint, "the chart %s of the %s %s is not at hand", name, kind, source)
	}
	f.Set("version", version)
	var files []string
	for _, item := range c.Get("valuesFiles").Items() {
		if chart := f.Value("chart").Value; strings.HasPrefix(chart, ".") && chart != foreign.FillIn {
			files = append(files, strings.TrimSuffix(chart, "/")+"/"+strings.TrimPrefix(item.Text(), "./"))
			continue
		}
		item.Lost("copy it from the chart and name it in values_files", "the file %s of the chart itself is not used as values", item.Peek())
	}
	f.Set("values_files", files)
}

// sourceURL is the address of a source; "" when it is not known.
func sourceURL(o *object.Object) string {
	if o == nil {
		return ""
	}
	return o.Get("spec", "url").Peek()
}

// chartRef takes a chart that an object of its own stands for.
func (im *importer) chartRef(r *release, ref *foreign.Value) {
	f := &r.step.Fields
	kind, name, o := im.source(ref, r.objectNamespace)
	if kind != "OCIRepository" || o == nil {
		f.Set("chart", foreign.FillIn)
		ref.Get("name").Lost("import its file too, or fill in helm.chart", "the %s %s is not in the files", kind, name)
		return
	}
	chart, version := im.artifact(o)
	f.Set("chart", chart)
	f.Set("version", version)
}

// semver is what Helm takes as a version.
var semver = regexp.MustCompile(`^v?\d+(\.\d+){0,2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)

// artifact is the address of an OCIRepository, and its version.
func (im *importer) artifact(o *object.Object) (address, version string) {
	o.TakeHead()
	spec := o.Get("spec")
	for _, name := range []string{"interval", "timeout", "layerSelector"} {
		spec.Get(name).Take()
	}
	if o.Version != "v1" {
		o.Get("apiVersion").Changed("", "%s is read as v1", o.Version)
	}
	address = spec.Get("url").Text()
	if address == "" {
		address = foreign.FillIn
	}
	im.login(o, address)
	ref := spec.Get("ref")
	tag, constraint, digest := ref.Get("tag").Text(), ref.Get("semver").Text(), ref.Get("digest").Text()
	switch { // digest counts over semver, that over tag
	case digest != "":
		return address + "@" + digest, ""
	case constraint != "":
		return address, constraint
	case semver.MatchString(tag):
		return address, tag
	}
	return address + ":" + cmp.Or(tag, "latest"), ""
}

// repository is how charts of a HelmRepository are called: by the name under which the
// plan declares it, or the address of a registry.
func (im *importer) repository(o *object.Object) string {
	key := im.tree.namespace(o) + "/" + o.Name
	if known := im.aliases[key]; known != "" {
		return known
	}
	o.TakeHead()
	spec := o.Get("spec")
	for _, name := range []string{"interval", "timeout", "provider"} {
		if spec.Get(name).Peek() == "generic" || name != "provider" {
			spec.Get(name).Take()
		}
	}
	if o.Version != "v1" {
		o.Get("apiVersion").Changed("", "%s is read as v1", o.Version)
	}
	url := strings.TrimSuffix(spec.Get("url").Text(), "/")
	if spec.Get("type").Text() == "oci" || strings.HasPrefix(url, "oci://") {
		im.aliases[key] = url
		im.login(o, url)
		return url
	}
	name := cmp.Or(foreign.Label(o.Name), "repository")
	if im.plan.Repositories.Value(name) != nil {
		name = cmp.Or(foreign.Label(o.Namespace+"-"+o.Name), name)
	}
	im.aliases[key] = name
	var f foreign.Fields
	f.Set("url", url)
	im.plan.Repositories.Set(name, &f)
	im.credentials(o, &f, name)
	return name
}

// login declares a registry that wants a login, or is not served by TLS.
func (im *importer) login(o *object.Object, address string) {
	spec := o.Get("spec")
	if !spec.Get("secretRef").Given() && !spec.Get("insecure").Given() {
		return
	}
	name := cmp.Or(foreign.Label(o.Name), "registry")
	if im.plan.Repositories.Value(name) != nil {
		name = cmp.Or(foreign.Label(o.Namespace+"-"+o.Name), name)
	}
	var f foreign.Fields
	f.Set("url", address)
	if spec.Get("insecure").Or(false) {
		f.Set("plain_http", true)
	}
	im.credentials(o, &f, name)
	im.plan.Repositories.Set(name, &f)
}

// credentials makes variables of a login: a repository has to be known before a Secret
// of the cluster can be read.
func (im *importer) credentials(o *object.Object, f *foreign.Fields, name string) {
	spec := o.Get("spec")
	if spec.Get("passCredentials").Or(false) {
		f.Set("pass_credentials", true)
	}
	secret := spec.Get("secretRef", "name")
	if !secret.Given() {
		return
	}
	id := im.plan.Secret(foreign.Identifier(name+"_password"), "password of the repository "+name)
	user := foreign.Identifier(name + "_username")
	im.plan.Var(user, "user of the repository "+name)
	f.Set("username", foreign.Expr("vars."+user))
	f.Set("password", foreign.Expr("vars."+id))
	secret.Changed("they are in the Secret "+secret.Peek()+" of the cluster", "the login of the repository is the variables %s and %s", user, id)
}
