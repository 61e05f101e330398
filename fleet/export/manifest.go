package export

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
	kyaml "sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/plan"
)

// folder is where the manifests of an apply step are in the Git repository.
type folder struct {
	path string
	// objects are those in it, as far as they are known. All says that they are.
	objects []map[string]any
	all     bool
}

// manifests puts the manifests of an apply step into a folder of the Git repository. Clusters
// whose manifests are the same share it.
func (s *step) manifests(cluster string) (*folder, error) {
	s.take("apply.files", "apply.objects", "apply.evaluate", "apply.kustomize", "apply.plain_http")
	f := &folder{all: true}
	if s.Apply.Kustomize != "" {
		f.path, f.all = s.folder(cluster, s.Apply.Kustomize), false
		hint := "copy " + s.Apply.Kustomize + " to " + f.path
		if plan.IsAddress(s.Apply.Kustomize) {
			hint = "pull it to " + f.path
		}
		s.lost(s.at("apply.kustomize"), hint, "step %s: the overlay is not in the Git repository yet: it is read from %s", s.Name, f.path)
		return f, nil
	}
	files, names := map[string][]byte{}, []any{}
	put := func(name string, text []byte) {
		name = fmt.Sprintf("%02d-%s", len(names)+1, name)
		files[name], names = text, append(names, name)
		f.objects = append(f.objects, decoded(text)...)
	}
	if err := s.files(f, put); err != nil {
		return nil, err
	}
	for i, o := range s.Apply.Objects {
		hint := "make the object another way; Flux decrypts what SOPS encrypted"
		text, err := kyaml.Marshal(s.public(o, fmt.Sprintf("apply.objects[%d]", i), hint))
		if err != nil {
			return nil, fmt.Errorf("step %s: %w", s.Name, err)
		}
		kind, _ := o["kind"].(string)
		put(objectName(cmp.Or(kind, "object"))+".yaml", text)
	}
	text, err := kyaml.Marshal(map[string]any{"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": names})
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", s.Name, err)
	}
	files["kustomization.yaml"] = text
	f.path = s.folder(cluster, digestOf(files))
	for name, text := range files {
		s.Result.Files[f.path+"/"+name] = text
	}
	return f, nil
}

// files reads the step's files, and leaves out with a word what must not be in a repository
// or is not there yet.
func (s *step) files(f *folder, put func(name string, text []byte)) error {
	for _, name := range s.Apply.Files {
		if plan.IsAddress(name) || name == plan.Stdin {
			f.all = false
			s.lost(s.at("apply.files"), "put the manifests beside the plan", "step %s: %s is left out: it is read when the plan runs", s.Name, name)
			continue
		}
		found, err := s.Files([]string{name})
		if err != nil {
			return fmt.Errorf("step %s: %w", s.Name, err)
		}
		for _, file := range found {
			text, evaluated := s.Evaluated[file]
			if !evaluated {
				if text, err = os.ReadFile(file); err != nil {
					return fmt.Errorf("step %s: %w", s.Name, err)
				}
			}
			if s.plan.Sensitive.Text(string(text)) != string(text) {
				f.all = false
				s.lost(s.at("apply.files"), "encrypt it with SOPS: Flux decrypts it", "step %s: %s has something sensitive, and is left out", s.Name, s.plan.Rel(file))
				continue
			}
			if isEncrypted(text) {
				s.lost(s.at("apply.files"), decryption[s.target.Name], "step %s: %s is encrypted, and %s has no key of it", s.Name, s.plan.Rel(file), s.target.Title)
			}
			put(filepath.Base(file), text)
		}
	}
	return nil
}

var decryption = map[string]string{
	"flux":   "put the key into a Secret, and name it in spec.decryption of the Kustomization",
	"argocd": "Argo CD decrypts by a plugin only",
}

// isEncrypted reports whether SOPS encrypted a file, by the mark that it leaves in YAML and JSON.
func isEncrypted(text []byte) bool {
	return strings.Contains("\n"+string(text), "\nsops:") || strings.Contains(string(text), `"sops":`)
}

// folder is the path for manifests that are told by a word of what they are.
func (s *step) folder(cluster, what string) string {
	key := s.Name + "\x00" + what
	if s.folders[key] == "" {
		words := []string{s.Name}
		for other := range s.folders {
			if strings.HasPrefix(other, s.Name+"\x00") {
				words = []string{s.Name, cluster}
			}
		}
		s.folders[key] = path.Join(filepath.ToSlash(s.Git.Path), s.unique("folder", "", words...))
	}
	return s.folders[key]
}

func digestOf(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %q\n", name, files[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// decoded are the objects of a file of YAML; none of one that cannot be read, for which the
// engine will have its own words.
func decoded(text []byte) []map[string]any {
	var all []map[string]any
	d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(text)), 4096)
	for {
		var o map[string]any
		if d.Decode(&o) != nil {
			return all
		}
		if len(o) > 0 {
			all = append(all, o)
		}
	}
}

// namespaces are those that objects name.
func (f *folder) namespaces() map[string]bool {
	all := map[string]bool{}
	for _, o := range f.objects {
		metadata, _ := o["metadata"].(map[string]any)
		if ns, _ := metadata["namespace"].(string); ns != "" {
			all[ns] = true
		}
	}
	return all
}
