// Package object reads files of Kubernetes objects for the sources that have their
// settings in such objects, and makes steps of objects that these do not know.
//
// It knows no kind of any tool, and renders nothing.
package object

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan/document"
	"github.com/kplan-dev/kplan/plan/finding"
)

// Object is an object of a file. Its Value is the whole of it.
type Object struct {
	*foreign.Value
	// File is the name of its file.
	File string
	// Group is the API group, "" for that of Kubernetes' core.
	Group, Version, Kind string
	// Namespace is "" when none is named.
	Namespace, Name string
}

// Is reports whether the object is of a kind of a group.
func (o *Object) Is(group, kind string) bool { return o.Group == group && o.Kind == kind }

// String is KIND/NAMESPACE/NAME, without what is not given.
func (o *Object) String() string {
	parts := []string{o.Kind, o.Namespace, o.Name}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), "/")
}

// Annotation takes an annotation; "" when there is none.
func (o *Object) Annotation(name string) string {
	return o.Get("metadata", "annotations").Get(name).Text()
}

// fromCluster are fields of metadata that the API server sets, and that say nothing of
// what is wanted. kubectl get -o yaml prints them.
var fromCluster = []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers", "ownerReferences"}

// TakeHead takes what identifies an object, and what a cluster says of it: of an object
// that is a setting of a tool, this is no loss. Labels and annotations are of that tool.
func (o *Object) TakeHead() {
	o.Get("apiVersion").Take()
	o.Get("kind").Take()
	o.Get("metadata").Take()
	o.Get("status").Take()
}

// Read reads the objects of a file. Items of lists are objects of their own. Documents
// that are no objects have no Kind.
func Read(f foreign.File, r *foreign.Report) ([]*Object, error) {
	docs, err := foreign.Read(f, foreign.Options{}, r)
	if err != nil {
		return nil, err
	}
	var all []*Object
	for _, d := range docs {
		all = append(all, split(f.Name, d)...)
	}
	return all, nil
}

// split is an object, or the items of a list.
func split(file string, d *foreign.Value) []*Object {
	kind := d.Get("kind").Peek()
	if items := d.Get("items"); strings.HasSuffix(kind, "List") && items.IsList() {
		d.Get("apiVersion").Take()
		d.Get("kind").Take()
		d.Get("metadata").Take()
		var all []*Object
		for _, item := range items.Items() {
			all = append(all, split(file, item)...)
		}
		return all
	}
	o := &Object{Value: d, File: file, Kind: kind, Namespace: d.Get("metadata", "namespace").Peek(), Name: d.Get("metadata", "name").Peek()}
	group, version, found := strings.Cut(d.Get("apiVersion").Peek(), "/")
	if !found {
		group, version = "", group
	}
	o.Group, o.Version = group, version
	return []*Object{o}
}

// Unreadable tells of a file that is no YAML, or none that can be imported: it may be a
// template that lies among others. It reports whether that is what the error says.
func Unreadable(err error, r *foreign.Report) bool {
	var syntax *foreign.SyntaxError
	if !errors.As(err, &syntax) {
		return false
	}
	r.Lost(document.Place{Pos: syntax.Pos}, "if it is a template, import what it renders to", "the file cannot be read, and is not imported: %v", syntax.Err)
	return true
}

// ReadAll reads the objects of all files. Of several files, one that cannot be read is
// told of.
func ReadAll(in foreign.Input, r *foreign.Report) ([]*Object, error) {
	var all []*Object
	for _, f := range in.Files {
		objects, err := Read(f, r)
		if len(in.Files) > 1 && Unreadable(err, r) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	return all, nil
}

// Rest are objects that a plan applies as they are.
type Rest struct {
	Plan    *foreign.Plan
	Report  *foreign.Report
	In      foreign.Input
	Objects []*Object
	// Name is what the steps are called.
	Name string
	// Namespace is that of objects which name none.
	Namespace string
	// All are all objects of the files: a file of which only some are in Objects is not
	// applied as a whole.
	All []*Object
}

// Own makes a step of the objects of Kubernetes' own kinds; nil without any.
func (r Rest) Own() *foreign.Step {
	var all []*Object
	for _, o := range r.Objects {
		if o.Kind == "" {
			o.Lost("if it is a file of values, name it in values_files", "the document is no object of Kubernetes, and is not imported")
		} else if isOwn(o.Group) {
			all = append(all, o)
		}
	}
	return r.step(all, r.Name, "objects")
}

// Custom makes a step of all other objects, whose kinds a release may bring; nil without
// any.
func (r Rest) Custom() *foreign.Step {
	var all []*Object
	for _, o := range r.Objects {
		if o.Kind != "" && !isOwn(o.Group) {
			all = append(all, o)
		}
	}
	return r.step(all, r.Name+"-custom", "custom-objects")
}

// Any makes a step of all objects; nil without any.
func (r Rest) Any() *foreign.Step {
	objects := slices.DeleteFunc(slices.Clone(r.Objects), func(o *Object) bool { return o.Kind == "" })
	return r.step(objects, r.Name, "objects")
}

func (r Rest) step(objects []*Object, names ...string) *foreign.Step {
	if len(objects) == 0 {
		return nil
	}
	s := &foreign.Step{Kind: "apply"}
	var files []string
	inline := &yaml.Node{Kind: yaml.SequenceNode}
	for _, o := range objects {
		if r.isWhole(o.File, objects) {
			o.Take()
			if name := r.In.FromPlan(o.File); !slices.Contains(files, name) {
				files = append(files, name)
			}
			continue
		}
		if n := r.inline(o); n != nil {
			inline.Content = append(inline.Content, n)
		}
	}
	if len(files) == 0 && len(inline.Content) == 0 {
		return nil
	}
	s.Fields.Set("files", files)
	s.Fields.Set("objects", inline)
	s.Fields.Set("namespace", r.Namespace)
	return r.Plan.Add(s, names...)
}

// isWhole reports whether all objects of a file are in a list.
func (r Rest) isWhole(file string, objects []*Object) bool {
	if !slices.ContainsFunc(r.In.Files, func(f foreign.File) bool { return f.Name == file && path.Base(file) != "stdin" }) {
		return false
	}
	return !slices.ContainsFunc(r.All, func(o *Object) bool { return o.File == file && !slices.Contains(objects, o) })
}

// inline is the object as a plan has it; nil when it cannot.
func (r Rest) inline(o *Object) *yaml.Node {
	if o.Get("sops").IsMap() {
		o.Lost("move it to a file of its own, and name that in files of an apply step", "%s is encrypted by SOPS, and only a whole file can be", o)
		return nil
	}
	if o.Name == "" || o.Version == "" {
		o.Lost("give it a name and an apiVersion, or apply it by yourself", "the %s has no name or no apiVersion, and is not imported", o.Kind)
		return nil
	}
	var f foreign.Fields
	for _, field := range o.Fields() {
		switch name := field.Name(); {
		case name == "status":
			field.Take()
		case name == "metadata":
			f.Set(name, metadata(field))
		case o.Is("", "Secret") && (name == "data" || name == "stringData"):
			f.Set(name, r.secret(o, field))
		default:
			f.Keep(name, r.Plan.Values(cmp.Or(foreign.Identifier(o.Name), "object"), field))
		}
	}
	return f.Node()
}

// secret is the data of a Secret with a variable for each value.
func (r Rest) secret(o *Object, data *foreign.Value) *foreign.Fields {
	var f foreign.Fields
	for _, field := range data.Fields() {
		what := field.Name() + " of the Secret " + o.Name
		if data.Name() == "data" {
			what += ", in base64"
		}
		name := r.Plan.Secret(cmp.Or(foreign.Identifier(o.Name+"_"+field.Name()), "secret"), what)
		field.Take()
		at := field.Place()
		r.Report.Add(finding.Finding{
			Pos: at.Pos, Path: at.Path, Severity: finding.Warning, Rule: foreign.Secret,
			Message: "the value of a Secret is not copied: the variable " + name + " stands for it",
			Hint:    "give it by --set or a var file that SOPS encrypts, or let env of the variable say where it is",
		})
		f.Set(field.Name(), foreign.Expr("vars."+name))
	}
	return &f
}

// metadata is that of an object without what only a cluster says.
func metadata(v *foreign.Value) *foreign.Fields {
	var f foreign.Fields
	for _, field := range v.Fields() {
		if slices.Contains(fromCluster, field.Name()) {
			field.Take()
			continue
		}
		n := field.Node()
		if field.Name() == "annotations" && n.Kind == yaml.MappingNode {
			n.Content = without(n.Content, "kubectl.kubernetes.io/last-applied-configuration")
		}
		f.Set(field.Name(), n)
	}
	return &f
}

func without(content []*yaml.Node, key string) []*yaml.Node {
	for i := 0; i+1 < len(content); i += 2 {
		if content[i].Value == key {
			return slices.Delete(content, i, i+2)
		}
	}
	return content
}

// own are the API groups of Kubernetes itself, all of whose kinds any cluster has.
var own = []string{
	"", "apps", "batch", "autoscaling", "policy", "extensions", "rbac.authorization.k8s.io", "networking.k8s.io", "storage.k8s.io", "apiextensions.k8s.io",
	"apiregistration.k8s.io", "admissionregistration.k8s.io", "scheduling.k8s.io", "coordination.k8s.io", "node.k8s.io", "discovery.k8s.io", "certificates.k8s.io",
	"events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "flowcontrol.apiserver.k8s.io", "resource.k8s.io",
}

func isOwn(group string) bool { return slices.Contains(own, group) }
