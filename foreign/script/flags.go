package script

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// flagKind says what becomes of a flag.
type flagKind int

const (
	// switchFlag has no value.
	switchFlag flagKind = iota + 1
	// valueFlag has one.
	valueFlag
	// silentSwitch and silentValue say how the command shows what it does, or what a plan
	// does anyway.
	silentSwitch
	silentValue
	// lostValue has one that says where the command works. It is told of.
	lostValue
)

// parsed is a command line.
type parsed struct {
	args []string
	// values are those of flags, by their long names, in their order.
	values map[string][]string
}

// get is the last value of a flag; "" when it is not given.
func (p parsed) get(name string) string {
	if all := p.values[name]; len(all) > 0 {
		return all[len(all)-1]
	}
	return ""
}

// is reports whether a switch is on.
func (p parsed) is(name string) bool {
	v, ok := p.values[name]
	return ok && v[len(v)-1] != "false"
}

// short are the long names of flags.
var short = map[string]string{
	"n": "namespace", "f": "filename", "k": "kustomize", "i": "install", "l": "selector", "o": "output", "g": "generate-name", "R": "recursive", "A": "all-namespaces",
	"c": "container", "w": "watch", "p": "patch",
}

// flags parses a command line. Flags that are not known are told of.
func (w *walker) flags(s *syntax.Stmt, command string, args []string, known map[string]flagKind) parsed {
	p := parsed{values: map[string][]string{}}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--" {
			p.args = append(p.args, args[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			p.args = append(p.args, arg)
			continue
		}
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !strings.HasPrefix(arg, "--") {
			letter := name[:1]
			if long := short[letter]; long != "" {
				if command == "helm" && letter == "f" {
					long = "values"
				}
				if rest := name[1:]; rest != "" && !given && known[long] != switchFlag {
					value, given = rest, true // -nkube-system
				}
				name = long
			}
		}
		kind := known[name]
		switch {
		case kind == valueFlag || kind == silentValue || kind == lostValue:
			if !given && i+1 < len(args) {
				i++
				value = args[i]
			}
		case !given:
			value = "true"
		}
		if kind == lostValue {
			w.lost(s, aimed, "the flag --%s of %s is not imported", name, command)
		}
		if kind == 0 {
			w.lost(s, "look which field of the step stands for it", "the flag %s of %s is not imported", arg, command)
		}
		p.values[name] = append(p.values[name], value)
	}
	return p
}

// helmFlags are those of helm install and upgrade (helm.sh/helm/v3 pkg/cmd).
var helmFlags = map[string]flagKind{
	"install": switchFlag, "wait": switchFlag, "atomic": switchFlag, "create-namespace": switchFlag, "devel": switchFlag, "dry-run": switchFlag, "skip-crds": switchFlag,
	"wait-for-jobs": switchFlag, "reuse-values": switchFlag, "reset-values": switchFlag, "reset-then-reuse-values": switchFlag, "no-hooks": switchFlag,
	"take-ownership": switchFlag, "force-conflicts": switchFlag, "rollback-on-failure": switchFlag, "plain-http": switchFlag, "generate-name": switchFlag, "verify": switchFlag,
	"insecure-skip-tls-verify": switchFlag, "pass-credentials": switchFlag,
	"namespace": valueFlag, "version": valueFlag, "values": valueFlag, "set": valueFlag, "set-string": valueFlag, "set-file": valueFlag, "set-json": valueFlag,
	"set-literal": valueFlag, "timeout": valueFlag, "repo": valueFlag, "kube-context": valueFlag, "description": valueFlag, "history-max": valueFlag,
	"username": valueFlag, "password": valueFlag, "keyring": valueFlag, "ca-file": valueFlag, "cert-file": valueFlag, "key-file": valueFlag, "server-side": valueFlag,
	"debug": silentSwitch, "hide-notes": silentSwitch, "render-subchart-notes": silentSwitch, "replace": silentSwitch, "force-update": silentSwitch, "no-update": silentSwitch,
	"output": silentValue, "kubeconfig": lostValue, "kube-apiserver": lostValue, "kube-token": lostValue, "kube-as-user": lostValue, "kube-ca-file": lostValue,
	"registry-config": silentValue, "repository-config": silentValue, "repository-cache": silentValue, "burst-limit": silentValue, "qps": silentValue,
}

// kubectlFlags are those of kubectl that plans know.
var kubectlFlags = map[string]flagKind{
	"server-side": switchFlag, "force-conflicts": switchFlag, "prune": switchFlag, "recursive": switchFlag, "all": switchFlag, "ignore-not-found": silentSwitch,
	"wait": switchFlag, "watch": silentSwitch, "force": switchFlag, "all-namespaces": switchFlag, "overwrite": silentSwitch, "current": switchFlag,
	"namespace": valueFlag, "filename": valueFlag, "kustomize": valueFlag, "for": valueFlag, "timeout": valueFlag, "selector": valueFlag, "context": valueFlag,
	"output": silentValue, "dry-run": switchFlag, "validate": silentValue, "v": silentValue, "field-manager": silentValue, "request-timeout": silentValue,
	"show-managed-fields": silentSwitch, "now": silentSwitch, "save-config": silentSwitch,
	"kubeconfig": lostValue, "server": lostValue, "token": lostValue, "cluster": lostValue, "user": lostValue, "as": lostValue, "certificate-authority": lostValue,
}
