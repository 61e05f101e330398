package freeze_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kplan-dev/kplan/fleet"
	"github.com/kplan-dev/kplan/fleet/freeze"
	"github.com/kplan-dev/kplan/fleet/load"
)

// bundle is that of a plan in a folder, with a file beside it.
func bundle(t *testing.T) (*freeze.Bundle, string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "plans"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "one.yaml"), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}\n"), 0o600))
	file := filepath.Join(dir, "plans", "plan.yaml")
	require.NoError(t, os.WriteFile(file, []byte("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: p}\nsteps: [{name: a, apply: {files: [../one.yaml]}}]\n"), 0o600))
	b, err := freeze.BundleOf(t.Context(), &fleet.Rollout{Clusters: []fleet.Cluster{{Name: "c"}}}, file, load.Options{})
	require.NoError(t, err)
	return b, dir
}

func TestBundle(t *testing.T) {
	b, _ := bundle(t)
	require.Equal(t, []string{"one.yaml", "plans/plan.yaml"}, b.Files())
	archive, err := b.Archive()
	require.NoError(t, err)
	same, _ := bundle(t) // in another folder
	again, err := same.Archive()
	require.NoError(t, err)
	require.Equal(t, archive, again)

	opened, err := freeze.Open(archive, b.Digest)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "new")
	file, err := opened.Unpack(dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "plans", "plan.yaml"), file)
	unpacked, err := freeze.BundleOf(t.Context(), &fleet.Rollout{Clusters: []fleet.Cluster{{Name: "c"}}}, file, load.Options{})
	require.NoError(t, err)
	require.Equal(t, b.Digest, unpacked.Digest)
	_, err = opened.Unpack(dir)
	require.ErrorContains(t, err, "file exists")
}

// A link in the folder leads nowhere.
func TestUnpackIntoLink(t *testing.T) {
	b, _ := bundle(t)
	dir, out := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(out, filepath.Join(dir, "plans")))
	_, err := b.Unpack(dir)
	require.Error(t, err)
	left, err := os.ReadDir(out)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestOpenRefuses(t *testing.T) {
	b, _ := bundle(t)
	whole, err := b.Archive()
	require.NoError(t, err)
	one := func(h tar.Header, text string) []byte {
		var out bytes.Buffer
		zip := gzip.NewWriter(&out)
		w := tar.NewWriter(zip)
		h.Size, h.Mode = int64(len(text)), 0o644
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write([]byte(text))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.NoError(t, zip.Close())
		return out.Bytes()
	}
	file := func(name string) []byte { return one(tar.Header{Typeflag: tar.TypeReg, Name: name}, "x") }
	for _, c := range []struct {
		name    string
		archive []byte
		want    string
	}{
		{"text", []byte("no archive"), "it is no gzip archive"},
		{"cut", whole[:len(whole)-20], "it is cut off or broken"},
		{"absolute", file("/etc/passwd"), `"/etc/passwd" leads out of the folder`},
		{"absolute below", file("files//etc/passwd"), `"files//etc/passwd" leads out of the folder`},
		{"up", file("files/../../x"), `"files/../../x" leads out of the folder`},
		{"up within", file("files/a/../x"), `"files/a/../x" leads out of the folder`},
		{"elsewhere", file("other"), `"other" leads out of the folder`},
		{"link", one(tar.Header{Typeflag: tar.TypeSymlink, Name: "files/x", Linkname: "/etc"}, ""), `"files/x" is no plain file`},
		{"hard link", one(tar.Header{Typeflag: tar.TypeLink, Name: "files/x", Linkname: "/etc/passwd"}, ""), `"files/x" is no plain file`},
		{"huge", one(tar.Header{Typeflag: tar.TypeReg, Name: "files/x"}, strings.Repeat("x", 16<<20+1)), `"files/x" has more than 16 MiB`},
		{"version", one(tar.Header{Typeflag: tar.TypeReg, Name: "bundle.json"}, `{"version": 2}`), "it is of another version than 1"},
		{"changed", file("files/x"), "somebody"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := freeze.Open(c.archive, b.Digest)
			if c.name == "changed" {
				require.ErrorContains(t, err, "and the rollout wants "+b.Digest)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A rollout whose plan has changed is refused.
func TestCheck(t *testing.T) {
	b, dir := bundle(t)
	r := &fleet.Rollout{Bundle: b.Digest, Clusters: []fleet.Cluster{{Name: "c"}}}
	file := filepath.Join(dir, "plans", "plan.yaml")
	require.NoError(t, freeze.Check(t.Context(), r, file, load.Options{}))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "one.yaml"), []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: two}}\n"), 0o600))
	require.ErrorContains(t, freeze.Check(t.Context(), r, file, load.Options{}), "the files of the plan are not those that were frozen any more")
}
