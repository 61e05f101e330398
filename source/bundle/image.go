package bundle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"

	"github.com/kplan-dev/kplan/plan"
	"github.com/kplan-dev/kplan/runner"
)

// dockerList is Docker's name for an index.
const dockerList = "application/vnd.docker.distribution.manifest.list.v2+json"

// ParseAddress returns the repository, as HOST/PATH with the host as it is written, and
// the tag or digest of what is at oci://HOST/PATH[:TAG][@DIGEST]. Of both, the digest
// counts; without any it is latest.
func ParseAddress(address string) (repository, reference string, err error) {
	rest, tag, digest := plan.SplitReference(strings.TrimPrefix(address, "oci://"))
	if host, path, ok := strings.Cut(rest, "/"); !ok || host == "" || path == "" || rest != strings.ToLower(rest) || strings.ContainsAny(rest, " \t\n{}$") {
		return "", "", fmt.Errorf("%q is no address of the form oci://HOST/REPOSITORY:TAG", address)
	}
	return rest, cmp.Or(digest, tag, "latest"), nil
}

// ParseImage returns the repository, as HOST/PATH, and the tag or digest of an image that
// an object names: nginx is docker.io/library/nginx and latest. Of both a tag and a
// digest, the digest counts.
func ParseImage(name string) (repository, reference string, err error) {
	rest, tag, digest := plan.SplitReference(name)
	host, path, ok := strings.Cut(rest, "/")
	switch {
	case rest == "" || rest != strings.ToLower(rest) || strings.ContainsAny(rest, " \t\n{}$"):
		return "", "", fmt.Errorf("%q names no image", name)
	case !ok:
		host, path = "docker.io", "library/"+rest
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		host, path = "docker.io", rest
	case host == "index.docker.io":
		host = "docker.io"
	}
	return host + "/" + path, cmp.Or(digest, tag, "latest"), nil
}

// Platform reads a platform such as linux/amd64 or linux/arm/v7.
func Platform(text string) (ocispec.Platform, error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return ocispec.Platform{}, fmt.Errorf("%q is no platform: it is OS/ARCHITECTURE, such as linux/amd64", text)
	}
	p := ocispec.Platform{OS: parts[0], Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	return p, nil
}

// AddImage copies an image into a layout: of one for several platforms those that are
// wanted, or all. What is there already is not copied again. The image's digest is
// another one than in the registry when not all of its platforms are taken.
func AddImage(ctx context.Context, to *Layout, from oras.ReadOnlyTarget, image *Image, reference string, platforms []string) error {
	desc, err := from.Resolve(ctx, reference)
	if err != nil {
		return err
	}
	if len(platforms) > 0 && isIndex(desc.MediaType) {
		image.Platforms = platforms
		desc, err = addPlatforms(ctx, to, from, desc, platforms)
	} else {
		err = oras.CopyGraph(ctx, from, to, desc, oras.DefaultCopyGraphOptions)
	}
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	if image.Size, err = sizeOf(ctx, to, desc, seen); err != nil {
		return err
	}
	image.root, image.Digest = desc, desc.Digest.String()
	return nil
}

func isIndex(mediaType string) bool {
	return mediaType == ocispec.MediaTypeImageIndex || mediaType == dockerList
}

// addPlatforms copies what an index has for some platforms: of one platform its
// manifest, of several an index of them.
func addPlatforms(ctx context.Context, to *Layout, from oras.ReadOnlyTarget, desc ocispec.Descriptor, platforms []string) (ocispec.Descriptor, error) {
	text, err := content.FetchAll(ctx, from, desc)
	if err != nil {
		return desc, err
	}
	var x ocispec.Index
	if err := json.Unmarshal(text, &x); err != nil {
		return desc, err
	}
	var chosen []ocispec.Descriptor
	for _, name := range platforms {
		want, err := Platform(name)
		if err != nil {
			return desc, err
		}
		i := slices.IndexFunc(x.Manifests, func(d ocispec.Descriptor) bool { return matches(d.Platform, want) })
		if i < 0 {
			return desc, runner.WithHint(fmt.Errorf("it has nothing for %s", name), "it is for: "+strings.Join(platformsOf(x), ", "))
		}
		if !slices.ContainsFunc(chosen, func(d ocispec.Descriptor) bool { return d.Digest == x.Manifests[i].Digest }) {
			chosen = append(chosen, x.Manifests[i])
		}
	}
	for _, d := range chosen {
		if err := oras.CopyGraph(ctx, from, to, d, oras.DefaultCopyGraphOptions); err != nil {
			return desc, err
		}
	}
	if len(chosen) == 1 {
		return chosen[0], nil
	}
	x.Manifests, x.MediaType = chosen, desc.MediaType
	return putJSON(ctx, to, x.MediaType, x)
}

// matches reports whether something is for a platform. One that says no variant takes any.
func matches(has *ocispec.Platform, want ocispec.Platform) bool {
	return has != nil && has.OS == want.OS && has.Architecture == want.Architecture && (want.Variant == "" || has.Variant == want.Variant)
}

func platformsOf(x ocispec.Index) []string {
	var names []string
	for _, d := range x.Manifests {
		if p := d.Platform; p != nil && p.OS != "unknown" { // as attestations say
			name := p.OS + "/" + p.Architecture
			if p.Variant != "" {
				name += "/" + p.Variant
			}
			names = append(names, name)
		}
	}
	return names
}

// sizeOf adds up what an image consists of, each part once.
func sizeOf(ctx context.Context, from content.ReadOnlyStorage, desc ocispec.Descriptor, seen map[string]bool) (int64, error) {
	if seen[desc.Digest.String()] {
		return 0, nil
	}
	seen[desc.Digest.String()] = true
	total := desc.Size
	parts, err := content.Successors(ctx, from, desc)
	if err != nil {
		return 0, err
	}
	for _, p := range parts {
		size, err := sizeOf(ctx, from, p, seen)
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// Copy copies the bundle with its images to another place, and names it there.
func (b *Bundle) Copy(ctx context.Context, to oras.Target, tag string) error {
	if err := oras.CopyGraph(ctx, b.from, to, b.Root, oras.DefaultCopyGraphOptions); err != nil {
		return err
	}
	return to.Tag(ctx, b.Root, tag)
}

// CopyImage copies one of the bundle's images to another place, and names it there.
func (b *Bundle) CopyImage(ctx context.Context, i Image, to oras.Target, tag string) error {
	if err := oras.CopyGraph(ctx, b.from, to, i.root, oras.DefaultCopyGraphOptions); err != nil {
		return err
	}
	return to.Tag(ctx, i.root, tag)
}
