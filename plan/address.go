package plan

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Stdin stands for standard input among the files of a step.
const Stdin = "-"

// IsAddress reports whether what a step names is an address of a web server or a
// registry, rather than a path.
func IsAddress(name string) bool {
	return strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "oci://")
}

// Paths returns those of names that are paths and globs.
func Paths(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == Stdin || IsAddress(name) })
}

// Address is where a file, or an artifact of files, is fetched from.
type Address struct {
	// URL is https://…, http://… or oci://HOST/PATH[:TAG][@DIGEST].
	URL string
	// Path is the file, folder or glob in an artifact; "" for all of it.
	Path string
	// Digest is what a file from a web server must have: "sha256:" and 64 hexadecimal
	// digits; "" when it may be anything.
	Digest string
}

var (
	digest    = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
	reference = regexp.MustCompile(`^[a-zA-Z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)+(:[\w][\w.-]{0,127})?(@[^@]*)?$`)
)

// ParseAddress reads an address: URL#sha256:… of a web server, or
// oci://HOST/PATH[:TAG][@sha256:…][//PATH] of a registry.
func ParseAddress(name string) (Address, error) {
	if rest, oci := strings.CutPrefix(name, "oci://"); oci {
		ref, path, _ := strings.Cut(rest, "//")
		a := Address{URL: "oci://" + ref, Path: strings.Trim(path, "/")}
		_, sum, pinned := strings.Cut(ref, "@")
		switch {
		case !reference.MatchString(ref):
			return a, errors.New("is not of the form oci://HOST/PATH[:TAG][@sha256:DIGITS][//PATH]")
		case pinned && !digest.MatchString(sum):
			return a, errors.New("has a malformed digest: it is sha256: and 64 hexadecimal digits")
		case slices.Contains(strings.Split(a.Path, "/"), ".."):
			return a, errors.New("leads out of the artifact")
		}
		return a, nil
	}
	address, sum, pinned := strings.Cut(name, "#")
	a := Address{URL: address, Digest: sum}
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Host == "":
		return a, errors.New("is not an address")
	case pinned && !digest.MatchString(sum):
		return a, errors.New("has a malformed digest after #: it is sha256: and 64 hexadecimal digits")
	case u.Scheme == "http" && !pinned:
		return a, errors.New("is not protected on its way")
	}
	return a, nil
}

// Pinned reports whether the address always leads to the same content.
func (a Address) Pinned() bool { return a.Digest != "" || strings.Contains(a.URL, "@sha256:") }

// SplitReference parts HOST/PATH[:TAG][@DIGEST], of which the repository is HOST/PATH.
func SplitReference(ref string) (repository, tag, digest string) {
	repository, digest, _ = strings.Cut(ref, "@")
	if i := strings.LastIndex(repository, ":"); i > strings.LastIndex(repository, "/") {
		repository, tag = repository[:i], repository[i+1:]
	}
	return repository, tag, digest
}
