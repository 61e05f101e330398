package script

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"

	"github.com/kplan-dev/kplan/foreign"
	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/plan/lint/secret"
)

// asks are commands of helm that install nothing, and make no file.
var asks = []string{"version", "list", "ls", "status", "get", "history", "hist", "search", "show", "inspect", "lint", "env", "completion", "verify", "diff", "help"}

// helm goes through one command of helm.
func (w *walker) helm(s *syntax.Stmt, args []string) {
	p := w.flagsOf(s, args)
	if len(p.args) == 0 {
		return
	}
	switch p.args[0] {
	case "install", "upgrade":
		w.release(s, w.flags(s, "helm", args, helmFlags))
	case "repo":
		if len(p.args) > 3 && p.args[1] == "add" {
			w.repository(s, p.args[2], p.args[3], w.flags(s, "helm", args, helmFlags))
		}
	case "uninstall", "delete":
		w.lost(s, "kplan down takes all away; a step with delete: {release: NAME} takes one", "the release is not uninstalled: %s", w.print(s))
	case "registry":
		w.lost(s, "declare the registry under repositories of the plan, with username and password", "the login is not in the plan")
	case "dependency", "dep":
		w.lost(s, "run it before kplan: charts on disk need their charts/ folder", "charts that a chart depends on are not fetched: %s", w.print(s))
	default:
		if !slices.Contains(asks, p.args[0]) {
			w.lost(s, "run it before or after kplan, if it is needed", "%s is not in the plan", w.print(s))
		}
	}
}

// flagsOf parses a command line of helm without telling of flags.
func (w *walker) flagsOf(s *syntax.Stmt, args []string) parsed {
	quiet := *w.importer
	quiet.result = &foreign.Result{}
	inner := *w
	inner.importer = &quiet
	return inner.flags(s, "helm", args, helmFlags)
}

// repository declares one of helm repo add.
func (w *walker) repository(s *syntax.Stmt, name, address string, p parsed) {
	label := foreign.Label(w.literal(name))
	if label == "" {
		w.lost(s, "declare it under repositories of the plan", "the repository has no name that is known")
		return
	}
	w.hosts[w.literal(name)] = label
	var r foreign.Fields
	r.Set("url", address)
	if user, password := p.get("username"), p.get("password"); user != "" || password != "" {
		r.Set("username", user)
		if foreign.HasExpr(password) {
			for _, id := range foreign.ReadBy(foreign.TextNode(password)) {
				w.plan.Var(id, "password of the repository "+label).Set("sensitive", true)
				if v := w.vars[id]; v != nil {
					w.plan.Var(id, "").Set("env", v.env)
				}
			}
			r.Set("password", password)
		} else {
			id := w.plan.Secret(foreign.Identifier(label+"_password"), "password of the repository "+label)
			r.Set("password", foreign.Expr("vars."+id))
			w.lost(s, "give the variable "+id, "the password of the repository is not copied")
		}
	}
	for _, f := range [][2]string{{"ca-file", "ca_file"}, {"cert-file", "cert_file"}, {"key-file", "key_file"}} {
		if file := p.get(f[0]); file != "" {
			r.Set(f[1], w.path(file))
		}
	}
	if p.is("insecure-skip-tls-verify") {
		r.Set("insecure_skip_tls_verify", true)
	}
	if p.is("pass-credentials") {
		r.Set("pass_credentials", true)
	}
	w.plan.Repositories.Set(label, &r)
}

// release makes a step of helm install or upgrade.
func (w *walker) release(s *syntax.Stmt, p parsed) {
	args := p.args[1:]
	if p.is("dry-run") {
		w.changed(s, "", "a dry run is left out: kplan diff shows what would change")
		return
	}
	if p.is("generate-name") && len(args) == 1 {
		w.lost(s, "give the release a name", "a release with a name made by chance is not in the plan")
		return
	}
	if len(args) < 2 {
		w.lost(s, "write a step with helm: {release: NAME, chart: CHART}", "the release or the chart is not known: %s", w.print(s))
		return
	}
	release, chart := args[0], args[1]
	step, err := w.add(plan.KindHelm, w.literal(release), w.literal(chart))
	if err != nil {
		w.err = err
		return
	}
	f := &step.Fields
	if release != step.Name {
		f.Set("release", release)
	}
	w.chart(s, f, chart, p)
	w.where(step, p)
	if ns := w.namespaceOf(p); ns != "" {
		f.Set("namespace", ns)
		if p.is("create-namespace") {
			f.Set("create_namespace", true)
		}
	}
	w.releaseValues(s, step, p)
	w.releaseFlags(s, step, p)
}

func (w *walker) chart(s *syntax.Stmt, f *foreign.Fields, chart string, p parsed) {
	plainChart := w.literal(chart)
	alias, name, hasAlias := strings.Cut(chart, "/")
	version := p.get("version")
	switch {
	case strings.HasPrefix(plainChart, "http://"), strings.HasPrefix(plainChart, "https://"):
		f.Set("chart", foreign.FillIn)
		w.lost(s, "name its repository by repo and chart, or fetch the archive and name that", "a chart at an address is not in the plan: %s", plainChart)
		return
	case strings.HasPrefix(plainChart, "oci://"):
		f.Set("chart", chart)
	case p.get("repo") != "":
		f.Set("chart", chart)
		f.Set("repo", p.get("repo"))
	case hasAlias && w.hosts[w.literal(alias)] != "":
		f.Set("chart", w.hosts[w.literal(alias)]+"/"+name)
	case w.isLocal(plainChart):
		f.Set("chart", w.path(chart))
		if _, err := w.in.Read(w.full(plainChart) + "/Chart.yaml"); err != nil && !strings.HasSuffix(plainChart, ".tgz") {
			w.lost(s, "name the folder of the chart in helm.chart", "there is no chart in %s", plainChart)
		}
		version = ""
	default:
		f.Set("chart", chart)
		w.changed(s, "declare it under repositories of the plan, so that every machine has it", "the repository %s is not in the script: it has to be known by helm repo add", w.literal(alias))
	}
	if version == "" && p.is("devel") {
		version = ">0.0.0-0" // what --devel stands for
	}
	f.Set("version", version)
	if keyring := p.get("keyring"); keyring != "" && p.is("verify") {
		var verify foreign.Fields
		verify.Set("keyring", w.path(keyring))
		f.Set("verify", &verify)
	} else if p.is("verify") {
		w.lost(s, "give verify: {keyring: FILE}", "the chart is not verified: the script names no keyring")
	}
	for _, flag := range []string{"ca-file", "cert-file", "key-file", "username", "password"} {
		if p.get(flag) != "" {
			w.lost(s, "declare its repository under repositories of the plan", "the flag --%s of helm is not imported", flag)
		}
	}
	if p.is("plain-http") {
		f.Set("plain_http", true)
	}
}

// isLocal reports whether a chart is a folder or an archive.
func (w *walker) isLocal(chart string) bool {
	if strings.HasPrefix(chart, ".") || strings.HasPrefix(chart, "/") || strings.HasSuffix(chart, ".tgz") || !strings.Contains(chart, "/") {
		return true
	}
	_, err := w.in.Read(w.full(chart) + "/Chart.yaml")
	return err == nil || strings.Count(chart, "/") > 1
}

// releaseValues takes what gives values: files, then each --set in their order.
func (w *walker) releaseValues(s *syntax.Stmt, step *foreign.Step, p parsed) {
	var files []string
	for _, list := range p.values["values"] {
		for file := range strings.SplitSeq(list, ",") {
			switch _, err := w.in.Read(w.full(w.literal(file))); {
			case strings.Contains(file, "://") || file == "-":
				w.lost(s, "write the values into a file and name it in values_files", "values of %s are not in the plan", file)
			case err != nil && !foreign.HasExpr(file):
				w.lost(s, "make it and name it in values_files", "there is no file %s, and its values are not in the plan", file)
			default:
				files = append(files, w.path(file))
			}
		}
	}
	step.Fields.Set("values_files", files)
	var values *yaml.Node
	for _, flag := range []string{"set-json", "set", "set-string", "set-literal"} { // as Helm merges them
		for _, text := range p.values[flag] {
			values = w.set(s, step, values, flag, text)
		}
	}
	if values != nil {
		step.Fields.Set("values", values)
	}
	setFiles := map[string]string{}
	for _, text := range p.values["set-file"] {
		for part := range strings.SplitSeq(text, ",") {
			name, file, ok := strings.Cut(part, "=")
			if _, err := w.in.Read(w.full(w.literal(file))); !ok || err != nil && !foreign.HasExpr(file) {
				w.lost(s, "make it and name it in set_file", "there is no file for %s", part)
				continue
			}
			setFiles[name] = w.path(file)
		}
	}
	step.Fields.Set("set_file", setFiles)
}

// set puts one --set over the values.
func (w *walker) set(s *syntax.Stmt, step *foreign.Step, values *yaml.Node, flag, text string) *yaml.Node {
	if flag == "set-json" || flag == "set-literal" {
		w.lost(s, "write it into values of the step", "--%s %s is not imported", flag, hideSecret(text))
		return values
	}
	all, ok := foreign.SplitSet(text)
	if !ok {
		w.lost(s, "write it into values of the step", "--%s %s is not understood", flag, hideSecret(text))
		return values
	}
	for _, a := range all {
		path, ok := foreign.SetPath(a.Name)
		if !ok || foreign.HasExpr(a.Name) {
			w.lost(s, "write the list out in values of the step", "--%s %s is not imported: a plan sets no single item of a list", flag, a.Name)
			continue
		}
		n := w.setValue(s, step, path, a.Value, flag == "set")
		if a.List != nil {
			n = &yaml.Node{Kind: yaml.SequenceNode}
			for _, item := range a.List {
				n.Content = append(n.Content, w.setValue(s, step, path, item, flag == "set"))
			}
		}
		values = foreign.Merge(values, foreign.Nest(path, n))
	}
	return values
}

// hideSecret is a name=value without the value, which may be a secret.
func hideSecret(text string) string {
	name, _, _ := strings.Cut(text, "=")
	return name + "=…"
}

// setValue is a value of a --set. A secret is not copied.
func (w *walker) setValue(s *syntax.Stmt, step *foreign.Step, path []string, text string, typed bool) *yaml.Node {
	last := path[len(path)-1]
	if !foreign.HasExpr(text) && text != "" && text != "true" && text != "false" && (secret.Named(last) && !secret.IsReference(text) || secret.In(text) != "") {
		id := w.plan.Secret(foreign.Identifier(step.Name+"_"+strings.Join(path, "_")), strings.Join(path, ".")+" of "+step.Name)
		w.result.Add(foreign.SecretFinding(w.place(s), id))
		return foreign.TextNode(foreign.Expr("vars." + id))
	}
	n := foreign.TextNode(text)
	if typed && !foreign.HasExpr(text) {
		return foreign.Typed(n)
	}
	return n
}

// releaseFlags takes what says how helm installs.
func (w *walker) releaseFlags(s *syntax.Stmt, step *foreign.Step, p parsed) {
	f := &step.Fields
	atomic := p.is("atomic") || p.is("rollback-on-failure")
	switch {
	case p.is("wait-for-jobs"):
		f.Set("wait_for_jobs", true)
	case !p.is("wait") && !atomic:
		f.Set("wait", string(plan.WaitHooks)) // what helm does without --wait
	}
	if atomic {
		f.Set("on_failure", string(plan.RollbackRelease))
	}
	for _, flag := range [][2]string{
		{"reuse-values", "reuse_values"},
		{"reset-then-reuse-values", "reset_then_reuse_values"},
		{"no-hooks", "disable_hooks"},
		{"take-ownership", "take_ownership"},
		{"force-conflicts", "force_conflicts"},
	} {
		if p.is(flag[0]) {
			f.Set(flag[1], true)
		}
	}
	if p.is("skip-crds") {
		f.Set("crds", string(plan.SkipCRDs))
	}
	f.Set("description", p.get("description"))
	if n, err := strconv.Atoi(p.get("history-max")); err == nil && n != plan.DefaultMaxHistory {
		f.Set("max_history", n)
	}
	if side := p.get("server-side"); slices.Contains([]string{"true", "false", "auto"}, side) {
		f.Set("server_side", side)
	}
	if p.is("insecure-skip-tls-verify") {
		w.lost(s, "insecure_skip_tls_verify of a repository of the plan does so", "the certificate of the chart's server is verified")
	}
	w.timeout(s, step, p.get("timeout"))
}

var seconds = regexp.MustCompile(`^\d+$`)

// timeout takes one of helm or kubectl; a bare number is seconds, as in older ones.
func (w *walker) timeout(s *syntax.Stmt, step *foreign.Step, text string) {
	known := w.literal(text)
	if seconds.MatchString(known) {
		known += "s"
	}
	switch d, err := time.ParseDuration(known); {
	case text == "":
	case err != nil || d <= 0:
		w.lost(s, "say it by timeout of the step", "the timeout %s is not imported", text)
	default:
		step.Timeout = d
	}
}
