package flux

import (
	"path"
	"strings"

	"github.com/kplan-dev/kplan/foreign"
)

// extensionGroup is that of ArtifactGenerator, which makes artifacts of parts of sources.
const extensionGroup = "source.extensions.fluxcd.io"

// folder is the path of a Kustomization within the repository, or within what an
// ArtifactGenerator makes of parts of it. Such a part is found where it is copied from.
func (im *importer) folder(ref *foreign.Value, namespace, within string) string {
	if ref.Get("kind").Peek() != "ExternalArtifact" {
		return within
	}
	for _, o := range im.tree.objects {
		if !o.Is(extensionGroup, "ArtifactGenerator") || im.tree.namespace(o) != namespace {
			continue
		}
		for _, a := range o.Get("spec", "artifacts").Items() {
			if a.Get("name").Peek() != ref.Get("name").Peek() {
				continue
			}
			for _, c := range a.Get("copy").Items() {
				if from, ok := copied(c.Get("from").Peek(), c.Get("to").Peek(), within); ok {
					o.Take()
					return from
				}
			}
		}
	}
	return within
}

// copied is where a path of an artifact is copied from: from is @SOURCE/FOLDER/**, and to
// is @artifact/FOLDER/. It is not ok when the copy does not bring that path.
func copied(from, to, within string) (name string, ok bool) {
	_, from, ok = strings.Cut(from, "/")
	base, whole := strings.CutSuffix(from, "/**")
	_, to, found := strings.Cut(to, "/")
	if !ok || !found || !whole || strings.ContainsAny(base, "*?[{") {
		return "", false
	}
	within, to = path.Join("/", within), path.Join("/", to)
	rest, ok := strings.CutPrefix(within+"/", strings.TrimSuffix(to, "/")+"/")
	return path.Join(base, rest), ok
}
