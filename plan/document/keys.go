package document

import (
	"bytes"
	"maps"
	"slices"

	yamlv3 "go.yaml.in/yaml/v3"
)

// Keys says which mappings of a file have names for keys that somebody chose.
// YAML 1.1 reads some of these, such as n, on and 010, as something else, and they
// would be found under another name than the one that stands there.
type Keys int

const (
	// PlainKeys says that none has. In values of Helm on is true, as Helm has it.
	PlainKeys Keys = iota
	// PlanKeys says that those of a plan have.
	PlanKeys
	// VarKeys says that the file itself has: its keys are names of variables.
	VarKeys
	// FleetKeys says that those of a fleet have.
	FleetKeys
)

// nameKeys makes texts of the keys that are names. The nodes are as if they were
// quoted, and so are their positions: of the plain ones that are not read as they
// stand.
func nameKeys(root *yamlv3.Node, kind Keys) (quoted []*yamlv3.Node) {
	for _, m := range namedMaps(root, kind) {
		for i := 0; i+1 < len(m.Content); i += 2 {
			k := m.Content[i]
			if k.Kind != yamlv3.ScalarNode || k.Style != 0 || k.Anchor != "" || k.ShortTag() == "!!merge" || k.ShortTag() == "!!null" {
				continue
			}
			if name, ok := SimpleKey(k); ok && name == k.Value {
				continue
			}
			k.Style, k.Tag = yamlv3.DoubleQuotedStyle, "!!str"
			quoted = append(quoted, k)
		}
	}
	return quoted
}

// namedMaps returns the mappings whose keys are names.
func namedMaps(root *yamlv3.Node, kind Keys) (maps []*yamlv3.Node) {
	add := func(n *yamlv3.Node) {
		if n != nil && n.Kind == yamlv3.MappingNode {
			maps = append(maps, n)
		}
	}
	switch kind {
	case PlainKeys:
	case VarKeys:
		add(root)
	case FleetKeys:
		add(child(root, "vars"))
		add(child(root, "clusters"))
		add(child(child(child(root, "engine"), "kubernetes"), "node_selector"))
		for _, entry := range items(child(root, "inventory")) {
			for _, cluster := range items(child(entry, "list")) {
				add(child(cluster, "labels"))
				add(child(cluster, "annotations"))
			}
		}
	case PlanKeys:
		add(child(root, "vars"))
		add(child(root, "clusters"))
		for _, step := range slices.Concat(items(child(root, "steps")), items(child(root, "finally"))) {
			add(child(step, "outputs"))
			add(child(step, "for_each"))
			add(child(child(step, "for_each"), "in"))
			add(child(child(step, "include"), "vars"))
			add(child(child(step, "include"), "clusters"))
		}
	}
	return maps
}

// items are those of a list; there are none of anything else.
func items(n *yamlv3.Node) []*yamlv3.Node {
	if n == nil || n.Kind != yamlv3.SequenceNode {
		return nil
	}
	return n.Content
}

// child returns the value of a field; nil where there is none. It does not follow
// aliases: what they mean stands elsewhere, maybe among values of Helm.
func child(n *yamlv3.Node, name string) *yamlv3.Node {
	if n == nil || n.Kind != yamlv3.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if k := n.Content[i]; k.Kind == yamlv3.ScalarNode && k.Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// quoteKeys returns the file with quotes around keys, for a parser that knows
// nothing of names.
func (s *Source) quoteKeys(keys []*yamlv3.Node) []byte {
	if len(keys) == 0 {
		return s.src
	}
	at := map[int]int{} // where a key starts, and its length
	for _, k := range keys {
		if from := s.Offset(k); bytes.HasPrefix(s.src[from:], []byte(k.Value)) {
			at[from] = len(k.Value)
		}
	}
	out := make([]byte, 0, len(s.src)+2*len(at))
	last := 0
	for _, from := range slices.Sorted(maps.Keys(at)) {
		to := from + at[from]
		out = append(out, s.src[last:from]...)
		out = append(out, '"')
		out = append(out, s.src[from:to]...)
		out = append(out, '"')
		last = to
	}
	return append(out, s.src[last:]...)
}
