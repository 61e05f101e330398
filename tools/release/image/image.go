package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nobody is the user of the image's process, and its group: a number, so that
// Kubernetes can tell that it is not root (runAsNonRoot).
const nobody = 65532

// certificates is where Go, and most else, looks for them on Linux.
const certificates = "etc/ssl/certs/ca-certificates.crt"

// imageOf is the image of one platform. What changes with each release, the binary, is
// the last layer; the one below it can be kept by who has it.
func imageOf(f facts, platform v1.Platform, binary string) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	base, err := layer(f, append(system(), entry{name: certificates, mode: 0o644, body: roots()}))
	if err != nil {
		return nil, err
	}
	top, err := layer(f, []entry{
		{name: "usr/bin/kplan", mode: 0o755, body: program},
		{name: "usr/bin/kubectl-kplan", link: "kplan"},
	})
	if err != nil {
		return nil, err
	}
	img := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	img = mutate.ConfigMediaType(img, types.OCIConfigJSON)
	img, err = mutate.Append(img,
		mutate.Addendum{Layer: base, History: v1.History{Created: v1.Time{Time: f.created}, CreatedBy: "certificates, user, folders"}},
		mutate.Addendum{Layer: top, History: v1.History{Created: v1.Time{Time: f.created}, CreatedBy: "kplan " + f.version}})
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant = platform.OS, platform.Architecture, platform.Variant
	file.Created = v1.Time{Time: f.created}
	file.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", nobody, nobody),
		Env:        []string{"PATH=/usr/bin", "HOME=/home/kplan", "SSL_CERT_FILE=/" + certificates},
		Entrypoint: []string{"/usr/bin/kplan"},
		WorkingDir: "/work",
		Labels:     f.labels(),
	}
	return mutate.ConfigFile(img, file)
}

// entry is a file of a layer; a folder where its name ends in a slash, and a symbolic
// link where it has one.
type entry struct {
	name, link string
	mode       int64
	owner      int
	body       []byte
}

// system is what a program expects of a machine: a user with a home, and a folder for
// temporary files.
func system() []entry {
	passwd := fmt.Sprintf("root:x:0:0:root:/root:/sbin/nologin\nkplan:x:%d:%d:kplan:/home/kplan:/sbin/nologin\n", nobody, nobody)
	group := fmt.Sprintf("root:x:0:\nkplan:x:%d:\n", nobody)
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/passwd", mode: 0o644, body: []byte(passwd)},
		{name: "etc/group", mode: 0o644, body: []byte(group)},
		{name: "home/", mode: 0o755},
		{name: "home/kplan/", mode: 0o700, owner: nobody},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "work/", mode: 0o755, owner: nobody},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
	}
}

// layer packs entries, with the time of the commit.
func layer(f facts, entries []entry) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Linkname: e.link, Size: int64(len(e.body)),
			Mode: e.mode, Uid: e.owner, Gid: e.owner, ModTime: f.created, Format: tar.FormatPAX,
		}
		switch {
		case e.link != "":
			h.Typeflag, h.Mode = tar.TypeSymlink, 0o777
		case strings.HasSuffix(e.name, "/"):
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.body); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}

// roots are the authorities that Mozilla's programs trust, in PEM. Those that are trusted
// under a condition are left out: a file cannot say the condition.
func roots() []byte {
	var b bytes.Buffer
	for r := range bundle.Roots() {
		if r.Constraint != nil {
			continue
		}
		fmt.Fprintf(&b, "# SHA-256 %x\n", sha256.Sum256(r.Certificate))
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate}) // a buffer takes all
	}
	return b.Bytes()
}
