package source

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// CacheFolder is the folder that runs share: KPLAN_CACHE, else kplan in the user's
// folder of caches (XDG_CACHE_HOME on Linux); "" when there is none. KPLAN_CACHE=off
// is for none.
func CacheFolder() string {
	if own := os.Getenv("KPLAN_CACHE"); own != "" {
		if own == "off" {
			return ""
		}
		return own
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(base, "kplan")
}

// cache keeps contents by their digests, and notes of which reference led to which.
// Files appear whole, by a rename, so that several processes may use one folder.
// A cache that cannot be written costs time, and nothing else.
type cache struct{ dir string }

// note is what an address led to.
type note struct {
	// Key is what the note is about. Addresses have tokens in them: the file has its
	// digest only.
	Key string `json:"-"`
	// About is the digest of Key.
	About string `json:"about"`
	// Digest names the content.
	Digest string `json:"digest"`
	// Manifest is the manifest's digest in a registry.
	Manifest string `json:"manifest,omitempty"`
	// MediaType is the server's.
	MediaType string `json:"media_type,omitempty"`
	// ETag and LastModified are the server's.
	ETag         string `json:"etag,omitempty"`
	LastModified string `json:"last_modified,omitempty"`
}

// digestOf is "sha256:" and the hexadecimal digits.
func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// blob returns the content with a digest, nil if it is not there or not whole.
func (c cache) blob(digest string) []byte {
	hexa, ok := strings.CutPrefix(digest, "sha256:")
	if c.dir == "" || !ok || len(hexa) != 2*sha256.Size {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(c.dir, "blobs", hexa))
	if err != nil || digestOf(b) != digest {
		return nil
	}
	return b
}

// put keeps a content.
func (c cache) put(b []byte) {
	if c.dir != "" {
		c.write(filepath.Join("blobs", strings.TrimPrefix(digestOf(b), "sha256:")), b)
	}
}

// note returns what is noted of a key, nil if nothing is.
func (c cache) note(key string) *note {
	if c.dir == "" {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(c.dir, noteFile(key)))
	var n note
	if err != nil || json.Unmarshal(b, &n) != nil || n.About != digestOf([]byte(key)) {
		return nil
	}
	return &n
}

// keep notes what a key led to.
func (c cache) keep(n note) {
	n.About = digestOf([]byte(n.Key))
	if b, err := json.Marshal(n); err == nil && c.dir != "" {
		c.write(noteFile(n.Key), b)
	}
}

func noteFile(key string) string {
	return filepath.Join("refs", strings.TrimPrefix(digestOf([]byte(key)), "sha256:")+".json")
}

// write makes a file that others see whole or not at all.
func (c cache) write(name string, b []byte) {
	path := filepath.Join(c.dir, name)
	if os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".new-")
	if err != nil {
		return
	}
	_, err = f.Write(b)
	if err = cmp.Or(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
}
