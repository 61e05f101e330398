package script

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan"
)

// looks are commands of kubectl that change nothing.
var looks = []string{"get", "describe", "logs", "version", "cluster-info", "explain", "api-resources", "api-versions", "top", "auth", "events", "diff", "kustomize", "completion"}

// kubectl goes through one command of kubectl.
func (w *walker) kubectl(s *syntax.Stmt, args []string) {
	i := slices.IndexFunc(args, func(a string) bool { return !strings.HasPrefix(a, "-") })
	quiet := w.flagsOfKubectl(s, args)
	if i < 0 || len(quiet.args) == 0 || slices.Contains(looks, quiet.args[0]) {
		return
	}
	switch verb := quiet.args[0]; verb {
	case "apply", "create", "replace":
		w.apply(s, args)
	case "wait":
		w.wait(s, w.flags(s, "kubectl", args, kubectlFlags))
	case "rollout":
		p := w.flags(s, "kubectl", args, kubectlFlags)
		if len(p.args) > 2 && p.args[1] == "status" {
			w.waitFor(s, objects(p.args[2:]), "ready", p)
			return
		}
		w.lost(s, "run it before or after kplan", "%s is not in the plan", w.print(s))
	case "delete":
		w.remove(s, w.flags(s, "kubectl", args, kubectlFlags))
	case "config":
		w.config(s, quiet)
	default:
		w.lost(s, "write what it does into the manifests, or run it before or after kplan", "kubectl %s is not in the plan: %s", verb, w.print(s))
	}
}

// flagsOfKubectl parses a command line of kubectl without telling of flags.
func (w *walker) flagsOfKubectl(s *syntax.Stmt, args []string) parsed {
	quiet := *w.importer
	quiet.result = &foreign.Result{}
	inner := *w
	inner.importer = &quiet
	return inner.flags(s, "kubectl", args, kubectlFlags)
}

// config takes the context or namespace that later commands work with.
func (w *walker) config(s *syntax.Stmt, p parsed) {
	switch {
	case len(p.args) > 2 && (p.args[1] == "use-context" || p.args[1] == "use"):
		w.context = p.args[2]
	case len(p.args) > 1 && p.args[1] == "set-context" && p.is("current") && p.get("namespace") != "":
		w.namespace = p.get("namespace")
	case len(p.args) > 1 && slices.Contains([]string{"current-context", "get-contexts", "view"}, p.args[1]):
	default:
		w.lost(s, "name the cluster under clusters of the plan", "%s is not in the plan", w.print(s))
	}
}

// where says on which cluster a step works.
func (w *walker) where(step *foreign.Step, p parsed) {
	context := w.context
	for _, flag := range []string{"context", "kube-context"} {
		if v := p.get(flag); v != "" {
			context = v
		}
	}
	if context == "" {
		return
	}
	if name := foreign.Label(w.literal(context)); name != "" && foreign.HasExpr(context) {
		if w.plan.Clusters.Value(name) == nil {
			var c foreign.Fields
			c.Set("context", context)
			w.plan.Clusters.Set(name, &c)
		}
		step.Cluster = name
		return
	}
	step.Cluster = w.plan.Cluster(context)
}

// namespaceOf is the namespace of a command.
func (w *walker) namespaceOf(p parsed) string {
	if ns := p.get("namespace"); ns != "" {
		return ns
	}
	return w.namespace
}

// apply makes a step of kubectl apply or create.
func (w *walker) apply(s *syntax.Stmt, args []string) {
	p := w.flagsOfKubectl(s, args)
	if w.tries(s, p) {
		return
	}
	if p.args[0] == "create" && len(p.args) > 2 && (p.args[1] == "namespace" || p.args[1] == "ns") {
		w.makeNamespaces(p)
		return
	}
	var files []string
	for _, list := range p.values["filename"] {
		files = append(files, strings.Split(list, ",")...)
	}
	overlay := p.get("kustomize")
	switch {
	case len(files) == 0 && overlay == "":
		w.lost(s, "write the object into a file, with a sensitive variable for what is secret, and name it in apply.files", "the object that kubectl makes is not in the plan: %s", w.print(s))
		return
	case slices.Contains(files, "-"):
		if text := heredoc(s); text != nil {
			w.manifest(s, text, append([]string{"kubectl"}, args...))
			return
		}
		w.lost(s, "write the manifests into a file and name it in apply.files", "manifests of stdin are not in the plan")
		return
	}
	var kept []string
	for _, file := range files {
		if name, ok := w.manifests(s, file, p.is("recursive")); ok {
			kept = append(kept, name)
		}
	}
	if len(kept) == 0 && overlay == "" {
		return
	}
	name := overlay
	if name == "" {
		name = files[0]
	}
	base := path.Base(w.literal(name))
	if base == "." || base == "/" {
		base = "manifests"
	}
	step, f := w.applyStep(s, args, base)
	if step == nil {
		return
	}
	f.Set("files", kept)
	if overlay != "" {
		f.Set("kustomize", w.path(overlay))
	}
}

// tries reports whether a command only tries what it would do, and tells of that.
func (w *walker) tries(s *syntax.Stmt, p parsed) bool {
	if !p.is("dry-run") || p.get("dry-run") == "none" {
		return false
	}
	w.changed(s, "", "a dry run is left out: kplan diff shows what would change")
	return true
}

// everywhere reports whether a command is about all namespaces, and tells of that.
func (w *walker) everywhere(s *syntax.Stmt, p parsed) bool {
	if !p.is("all-namespaces") {
		return false
	}
	w.lost(s, "write a step for each namespace", "objects of all namespaces are not in the plan: %s", w.print(s))
	return true
}

// manifests is a file of kubectl apply -f as the plan has it.
func (w *walker) manifests(s *syntax.Stmt, file string, recursive bool) (name string, ok bool) {
	known := w.literal(file)
	if strings.HasPrefix(known, "http://") || strings.HasPrefix(known, "https://") {
		if strings.HasPrefix(known, "http://") {
			w.lost(s, "fetch the file and name it in apply.files", "manifests of %s are not in the plan: kplan fetches by https only", known)
			return "", false
		}
		return file, true
	}
	if foreign.HasExpr(file) && known == "" {
		return file, true
	}
	if !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(known)) && !strings.ContainsAny(known, "*?[") {
		if recursive {
			w.lost(s, "name the folders below it too", "manifests in folders below %s are not in the plan", known)
		}
		return strings.TrimSuffix(w.path(file), "/") + "/*.yaml", true
	}
	return w.path(file), true
}

// applyFlags takes the flags of kubectl apply.
func (w *walker) applyFlags(s *syntax.Stmt, step *foreign.Step, p parsed) {
	f := &step.Fields
	f.Set("namespace", w.namespaceOf(p))
	if p.is("force-conflicts") {
		f.Set("force_conflicts", true)
	}
	if selector := p.get("selector"); selector != "" && !p.is("prune") {
		w.lost(s, "name files with these objects alone", "all objects are applied, not only those with the labels %s", selector)
	}
	if p.is("prune") {
		w.changed(s, "objects that were applied before the first run are not pruned", "prune goes by what the step itself applied before, and not by labels")
		f.Set("prune", true)
	}
	if p.is("force") {
		f.Set("on_immutable", string(plan.RecreateImmutable))
	}
	w.timeout(s, step, p.get("timeout"))
}

// makeNamespaces makes a step of kubectl create namespace.
func (w *walker) makeNamespaces(p parsed) {
	for _, name := range p.args[2:] {
		step, err := w.add(plan.KindApply, "namespace-"+w.literal(name))
		if err != nil {
			w.err = err
			return
		}
		w.where(step, p)
		var meta, object foreign.Fields
		meta.Set("name", name)
		object.Set("apiVersion", "v1")
		object.Set("kind", "Namespace")
		object.Set("metadata", &meta)
		step.Fields.Set("objects", foreign.List(object.Node()))
	}
}

// objects are TYPE/NAME of the arguments of a command: a/b c/d, or a b c.
func objects(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if strings.Contains(args[0], "/") {
		return args
	}
	if len(args) == 1 {
		return args
	}
	var all []string
	for _, name := range args[1:] {
		all = append(all, args[0]+"/"+name)
	}
	return all
}

// wait makes steps of kubectl wait.
func (w *walker) wait(s *syntax.Stmt, p parsed) {
	condition := p.get("for")
	if condition == "" || len(p.args) < 2 {
		w.lost(s, "write a step with wait", "what is waited for is not known: %s", w.print(s))
		return
	}
	w.waitFor(s, objects(p.args[1:]), condition, p)
}

func (w *walker) waitFor(s *syntax.Stmt, all []string, condition string, p parsed) {
	if w.everywhere(s, p) {
		return
	}
	selector := p.get("selector")
	for _, object := range all {
		kind, name, named := strings.Cut(object, "/")
		if !named && selector == "" {
			w.lost(s, "name the object, or select it by labels", "waiting for all %s is not in the plan", kind)
			continue
		}
		step, err := w.add(plan.KindWait, "wait-"+cmp.Or(w.literal(name), kind))
		if err != nil {
			w.err = err
			return
		}
		w.where(step, p)
		step.Fields.Set("resource", object)
		if !named {
			step.Fields.Set("selector", selector)
		}
		step.Fields.Set("namespace", w.namespaceOf(p))
		step.Fields.Set("for", condition)
		w.timeout(s, step, p.get("timeout"))
	}
}

// remove makes steps of kubectl delete.
func (w *walker) remove(s *syntax.Stmt, p parsed) {
	if isMakefile(w.name) { // a target of its own, which nobody runs after those that install
		w.lost(s, "kplan down takes all away; a step with delete takes one thing", "what a Makefile deletes is not in the plan: %s", w.print(s))
		return
	}
	if w.tries(s, p) || w.everywhere(s, p) {
		return
	}
	files := p.values["filename"]
	var all []string
	for _, o := range objects(p.args[1:]) {
		if _, _, named := strings.Cut(o, "/"); !named && p.get("selector") == "" {
			w.lost(s, "name what goes", "deleting all %s is not in the plan", o)
			continue
		}
		all = append(all, o)
	}
	for i, o := range slices.Concat(files, all) {
		step, err := w.add(plan.KindDelete, "delete-"+path.Base(w.literal(o)))
		if err != nil {
			w.err = err
			return
		}
		w.where(step, p)
		f := &step.Fields
		if i < len(files) {
			name, ok := w.manifests(s, o, false)
			if !ok {
				name = foreign.FillIn
			}
			f.Set("files", []string{name})
		} else {
			f.Set("resource", o)
			if !strings.Contains(o, "/") {
				f.Set("selector", p.get("selector"))
			}
		}
		f.Set("namespace", w.namespaceOf(p))
		if v, ok := p.values["wait"]; ok && v[len(v)-1] == "false" {
			f.Set("wait", false)
		}
		w.timeout(s, step, p.get("timeout"))
	}
}

// poll makes a wait of a loop that asks kubectl get until something is there.
func (w *walker) poll(at syntax.Node, c *syntax.CallExpr) {
	s := &syntax.Stmt{Cmd: c, Position: c.Pos()}
	args := w.words(c.Args)
	if len(args) < 2 || args[0] != "kubectl" {
		w.lost(at, "write a step with wait", "what the loop waits for is not in the plan: %s", w.print(c))
		return
	}
	p := w.flagsOfKubectl(s, args[1:])
	found := objects(p.args[1:])
	if p.args[0] != "get" || len(found) != 1 || !strings.Contains(found[0], "/") || p.get("output") != "" {
		w.lost(at, "write a step with wait", "what the loop waits for is not in the plan: %s", w.print(c))
		return
	}
	w.waitFor(s, found, "create", p)
}
