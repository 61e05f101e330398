// Command image makes the container image of kplan from its binaries, without Docker
// and without a base image, and pushes it.
//
// The image has a static binary, the certificates of public authorities, a user that is
// not root, and folders that this user may write; no shell, and nothing to update but
// itself. The same binaries make the same digest: all times are those of the commit.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

const usage = `usage: image --version VERSION --revision COMMIT --created TIME [--out DIR] [--push REPOSITORY [--tag TAG]…] OS/ARCH=BINARY…

It writes the image of all platforms to DIR, as an OCI layout, pushes it to REPOSITORY
with each TAG, and prints its digest. Logins are those of docker login.`

func main() {
	if err := run(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Println(usage)
			return
		}
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// facts are what an image says of itself.
type facts struct {
	version, revision string
	created           time.Time
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	flags.Usage = func() {}
	var f facts
	flags.StringVar(&f.version, "version", "", "")
	flags.StringVar(&f.revision, "revision", "", "")
	created := flags.String("created", "", "")
	out := flags.String("out", "", "")
	push := flags.String("push", "", "")
	var tags []string
	flags.Func("tag", "", func(tag string) error { tags = append(tags, tag); return nil })
	if err := flags.Parse(args); err != nil {
		return err
	}
	if f.version == "" || f.revision == "" || *created == "" || flags.NArg() == 0 {
		return errors.New("--version, --revision, --created and a binary are needed (--help tells more)")
	}
	var err error
	if f.created, err = time.Parse(time.RFC3339, *created); err != nil {
		return fmt.Errorf("--created: %w", err)
	}
	index, err := build(f, flags.Args())
	if err != nil {
		return err
	}
	if *out != "" {
		if err := save(index, *out, f.version); err != nil {
			return err
		}
	}
	if *push != "" {
		if err := publish(index, *push, tags); err != nil {
			return err
		}
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Println(digest)
	return nil
}

// build is the index of the images of all platforms, each given as OS/ARCH=BINARY.
func build(f facts, binaries []string) (v1.ImageIndex, error) {
	var parts []mutate.IndexAddendum
	for _, b := range binaries {
		where, binary, ok := strings.Cut(b, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not OS/ARCH=BINARY", b)
		}
		platform, err := v1.ParsePlatform(where)
		if err != nil {
			return nil, err
		}
		img, err := imageOf(f, *platform, binary)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		parts = append(parts, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: platform}})
	}
	index := mutate.AppendManifests(empty.Index, parts...)
	return mutate.Annotations(index, f.labels()).(v1.ImageIndex), nil
}

// labels are those of the OCI image specification.
func (f facts) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "kplan",
		"org.opencontainers.image.description": "Install plans for Kubernetes that do not lose races with webhooks",
		"org.opencontainers.image.url":         "https://github.com/kplan-dev/kplan",
		"org.opencontainers.image.source":      "https://github.com/kplan-dev/kplan",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     f.version,
		"org.opencontainers.image.revision":    f.revision,
		"org.opencontainers.image.created":     f.created.UTC().Format(time.RFC3339),
	}
}

// save writes the index as an OCI layout, under the name of its version.
func save(index v1.ImageIndex, dir, version string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return l.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": version}))
}

// publish pushes the index, with each of the tags.
func publish(index v1.ImageIndex, repository string, tags []string) error {
	repo, err := name.NewRepository(repository)
	if err != nil {
		return err
	}
	if len(tags) == 0 {
		return errors.New("--push needs a --tag")
	}
	login := remote.WithAuthFromKeychain(authn.DefaultKeychain)
	for _, tag := range tags {
		ref, err := name.NewTag(repo.Name() + ":" + tag)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(ref, index, login); err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
	}
	return nil
}
