package lint

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
)

// waitImage has a shell and nothing that the wait does not need. It is small,
// widely mirrored and has the tag that it had yesterday.
const waitImage = "busybox:1.37.0"

var (
	errChart  = errors.New("a chart renders it: what a chart has in it is not edited")
	errEnv    = errors.New("the Secret is read into the environment, not mounted: use --fix=wait")
	errExists = errors.New("an init container of that name is there already")
)

// addContainer lets the pods of an object wait for the files of a Secret. The
// volume becomes optional, for otherwise the kubelet would not start the init
// container before the Secret is there; it shows the files in the running pod once
// they are. So the container needs no right to ask the API server.
func (m *fixer) addContainer(w missingWait) error {
	switch {
	case w.object.Text == nil:
		return errChart
	case !w.volume:
		return errEnv
	}
	e := newEditor(w.object.Text)
	node := func(fields ...any) *yamlv3.Node {
		return w.object.Text.Find(slices.Concat(w.object.At, fields)...)
	}
	at := podSpec(w.object)
	spec, secret, volume := node(at...), node(w.at[:len(w.at)-1]...), node(w.at[:len(at)+2]...)
	name := get(volume, "name")
	if spec == nil || secret == nil || name == nil || flow(spec) || secret.Kind != yamlv3.MappingNode || len(secret.Content) == 0 {
		return errLayout
	}
	container := strings.Trim(("wait-for-" + strings.ReplaceAll(w.secret, ".", "-"))[:min(len(w.secret)+9, 63)], "-")
	for _, c := range items(get(spec, "initContainers")) {
		if n := get(c, "name"); n != nil && n.Value == container {
			return errExists
		}
	}
	insert, err := e.container(spec, containerLines(container, name.Value, w.secret, file(secret)))
	if err != nil {
		return err
	}
	if !slices.Contains(m.optional, secret) {
		m.optional = append(m.optional, secret)
		m.edits = append(m.edits, e.makeOptional(secret))
	}
	m.edits = append(m.edits, insert)
	return nil
}

// file is one of the files that a Secret's volume has once the Secret is there:
// they appear all at once.
func file(secret *yamlv3.Node) string {
	shown := "tls.crt"
	for i, item := range items(get(secret, "items")) {
		key, path := get(item, "key"), get(item, "path")
		if path != nil && (i == 0 || key != nil && key.Value == "tls.crt") {
			shown = path.Value
		}
	}
	return shown
}

// makeOptional lets a volume be mounted without its Secret.
func (e editor) makeOptional(secret *yamlv3.Node) Edit {
	first := secret.Content[0]
	if was := get(secret, "optional"); was != nil {
		edit := e.before(was, "true")
		edit.Delete = len(was.Value)
		return edit
	}
	if flow(secret) {
		return e.before(first, "optional: true, ")
	}
	return e.before(first, "optional: true"+e.eol+strings.Repeat(" ", first.Column-1))
}

// containerLines are those of the init container. It takes no rights, so that the
// restricted Pod Security Standard admits it.
func containerLines(name, volume, secret, file string) []string {
	dir := "/wait/" + secret
	return []string{
		"name: " + name,
		"image: " + waitImage,
		"command: [sh, -c, \"until [ -s " + dir + "/" + file + " ]; do echo waiting for the Secret " + secret + "; sleep 2; done\"]",
		fmt.Sprintf("volumeMounts: [{name: %s, mountPath: %s, readOnly: true}]", volume, dir),
		"securityContext:",
		"  runAsNonRoot: true",
		"  runAsUser: 65534",
		"  allowPrivilegeEscalation: false",
		"  capabilities: {drop: [ALL]}",
		"  seccompProfile: {type: RuntimeDefault}",
	}
}

// container inserts an init container before the others.
func (e editor) container(spec *yamlv3.Node, fields []string) (Edit, error) {
	if list := get(spec, "initContainers"); list != nil {
		if len(items(list)) == 0 || flow(list) {
			return Edit{}, errLayout
		}
		lead, ok := e.isItem(list.Content[0])
		if !ok {
			return Edit{}, errLayout
		}
		return e.above(list.Content[0], item(lead, fields)), nil
	}
	var key *yamlv3.Node
	pairs(spec, func(k, v *yamlv3.Node) {
		if k.Value == "containers" && v.Kind == yamlv3.SequenceNode && !flow(v) {
			key = k
		}
	})
	if key == nil {
		return Edit{}, errLayout
	}
	_, lead := e.lead(key)
	if strings.TrimSpace(lead) != "" {
		return Edit{}, errLayout
	}
	indent := strings.Repeat(" ", get(spec, "containers").Column-1)
	return e.above(key, append([]string{lead + "initContainers:"}, item(indent+"- ", fields)...)), nil
}

// item are the lines of a list's item; lead is blanks and a dash.
func item(lead string, fields []string) []string {
	lines := []string{lead + fields[0]}
	for _, f := range fields[1:] {
		lines = append(lines, strings.Repeat(" ", len(lead))+f)
	}
	return lines
}
