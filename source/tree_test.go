package source

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// archive makes a tar archive with gzip. An entry has size bytes, which are zero.
func archive(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var all bytes.Buffer
	zeros := packed(t, make([]byte, 1<<20)) // many gzip files in a row are one
	for _, h := range entries {
		var head bytes.Buffer
		require.NoError(t, tar.NewWriter(&head).WriteHeader(&h))
		all.Write(packed(t, head.Bytes()))
		for range h.Size >> 20 {
			all.Write(zeros)
		}
		all.Write(packed(t, make([]byte, (h.Size%(1<<20)+511)/512*512)))
	}
	all.Write(packed(t, make([]byte, 1024))) // which ends an archive
	return all.Bytes()
}

func packed(t *testing.T, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, err := w.Write(b)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return z.Bytes()
}

// TestUnpackTakesPlainFilesWithin leaves out what would lead out of the archive, or is no
// file.
func TestUnpackTakesPlainFilesWithin(t *testing.T) {
	files, err := unpack(archive(t,
		tar.Header{Name: "./a.yaml", Typeflag: tar.TypeReg, Size: 1},
		tar.Header{Name: "sub/../b.yaml", Typeflag: tar.TypeReg, Size: 2},
		tar.Header{Name: "../out.yaml", Typeflag: tar.TypeReg, Size: 1},
		tar.Header{Name: "sub/../../out.yaml", Typeflag: tar.TypeReg, Size: 1},
		tar.Header{Name: `..\out.yaml`, Typeflag: tar.TypeReg, Size: 1},
		tar.Header{Name: "/etc/out.yaml", Typeflag: tar.TypeReg, Size: 1},
		tar.Header{Name: "link.yaml", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		tar.Header{Name: "hard.yaml", Typeflag: tar.TypeLink, Linkname: "../out.yaml"},
		tar.Header{Name: "pipe", Typeflag: tar.TypeFifo},
		tar.Header{Name: "device", Typeflag: tar.TypeChar},
	))
	require.NoError(t, err)
	require.Equal(t, []string{"a.yaml", "b.yaml"}, slices.Sorted(maps.Keys(files)))
}

// TestUnpackIsBounded reads no more of an archive than may be in it: neither of what it
// takes, nor of what it leaves out.
func TestUnpackIsBounded(t *testing.T) {
	for name, entry := range map[string]tar.Header{
		"taken":    {Name: "a.yaml", Typeflag: tar.TypeReg, Size: maxTree + 1},
		"left out": {Name: "../a.yaml", Typeflag: tar.TypeReg, Size: 3 * maxTree},
	} {
		t.Run(name, func(t *testing.T) {
			packed := archive(t, entry)
			require.Less(t, len(packed), 4<<20, "the archive itself is small")
			_, err := unpack(packed)
			require.EqualError(t, err, "has more than 128 MiB or 20000 files")
		})
	}
}
