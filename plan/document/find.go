package document

import yamlv3 "go.yaml.in/yaml/v3"

// Node finds the node at a path, and the key that leads to it: nil for the
// items of lists and the root. It goes as deep as the path can be followed.
func (s *Source) Node(at Path) (n, key *yamlv3.Node) {
	n, key, _ = s.find(at)
	return n, key
}

// Find is the node at a path of fields, by name, and items of lists, by index. It is
// nil where the document has none.
func (s *Source) Find(fields ...any) *yamlv3.Node {
	if n, _, all := s.find(fields); all {
		return n
	}
	return nil
}

// find is Node that tells whether the path could be followed to its end.
func (s *Source) find(at Path) (n, key *yamlv3.Node, all bool) {
	n = s.Root()
	for _, e := range at {
		if n != nil && n.Kind == yamlv3.AliasNode {
			n = n.Alias
		}
		if n == nil {
			return nil, nil, false
		}
		switch e := e.(type) {
		case string:
			v, k := s.field(n, e)
			if v == nil {
				return n, key, false
			}
			n, key = v, k
		case int:
			if n.Kind != yamlv3.SequenceNode || e >= len(n.Content) {
				return n, key, false
			}
			n, key = n.Content[e], nil
		}
	}
	return n, key, n != nil
}

// field finds the value and the key of a field in a mapping.
func (s *Source) field(n *yamlv3.Node, name string) (value, key *yamlv3.Node) {
	if n.Kind != yamlv3.MappingNode {
		return nil, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	index, ok := s.fields[n]
	if !ok {
		index = make(map[string]int, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			if got, ok := keyName(n.Content[i]); ok {
				index[got] = i // of duplicates the last one counts
			}
		}
		if len(n.Content) > 100 { // smaller ones are as quickly read again
			if s.fields == nil {
				s.fields = map[*yamlv3.Node]map[string]int{}
			}
			s.fields[n] = index
		}
	}
	i, ok := index[name]
	if !ok && name == "on" { // see plainOn
		i, ok = index["true"]
	}
	if ok {
		return n.Content[i+1], n.Content[i]
	}
	return nil, nil
}

// ValuePos returns where the value at a path starts.
func (s *Source) ValuePos(at Path) Pos {
	if n, _ := s.Node(at); n != nil {
		return s.Pos(n)
	}
	return Pos{File: s.file}
}

// KeyPos returns where the key of the field at a path starts, or the value where
// there is no key.
func (s *Source) KeyPos(at Path) Pos {
	if _, key := s.Node(at); key != nil {
		return s.Pos(key)
	}
	return s.ValuePos(at)
}
