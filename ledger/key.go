package ledger

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// keySize is that of a key in bytes.
const keySize = 32

// Key makes the digests of a plan's steps. It is kept beside the records and is in
// none of them, so that a short password cannot be found from the digest of a step
// by trying. Digests of different keys differ.
type Key []byte

// NewKey makes a key.
func NewKey() Key {
	k := make(Key, keySize)
	_, _ = rand.Read(k) // it never fails
	return k
}

// Digest tells v from all else, by its JSON form; "" if it has none.
func (k Key) Digest(v any) string {
	b, err := json.Marshal(v) // maps are sorted
	if err != nil || len(k) == 0 {
		return ""
	}
	h := hmac.New(sha256.New, k)
	h.Write(b)
	return "hmac-sha256:" + hex.EncodeToString(h.Sum(nil))
}

func (k Key) equal(other Key) bool { return hmac.Equal(k, other) }
