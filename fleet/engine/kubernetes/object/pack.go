package object

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// room is how much of a ConfigMap's 1 MiB is used, and unpacked how much one may hold
// unpacked.
const (
	room     = 900 << 10
	unpacked = 64 << 20
)

// MaxBundle is how large the plan's files may be packed to fit a ConfigMap.
const MaxBundle = 700 << 10

// Digest is that of bytes, as sha256:HEX.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// TooLargeError says that something does not fit a ConfigMap.
type TooLargeError struct {
	What string
	Size int
	Tip  string
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s has %d KiB, which is too much for a ConfigMap", e.What, (e.Size+1023)>>10)
}

// Hint says what to do about it.
func (e *TooLargeError) Hint() string { return e.Tip }

// ChangedError says that an object of a run is not what the run was begun with.
type ChangedError struct{ What, Want, Got string }

func (e *ChangedError) Error() string {
	return fmt.Sprintf("%s was changed since the run began: its digest is %s, and not %s", e.What, e.Got, e.Want)
}

// Hint says what to do about it.
func (e *ChangedError) Hint() string {
	return "nothing of it is run; find out who changed it, and begin a new run with kplan fleet run"
}

// Verify returns a *ChangedError unless bytes have a digest.
func Verify(what string, b []byte, want string) error {
	if got := Digest(b); got != want {
		return &ChangedError{What: what, Want: want, Got: got}
	}
	return nil
}

// pack writes a value as JSON with gzip. Equal values make equal bytes.
func pack(v any) ([]byte, error) {
	var out bytes.Buffer
	zip, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err := json.NewEncoder(zip).Encode(v); err != nil {
		return nil, err
	}
	if err := zip.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// unpack reads what pack wrote.
func unpack(b []byte, v any) error {
	zip, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(zip, unpacked+1))
	if err != nil {
		return err
	}
	if len(text) > unpacked {
		return errors.New("it is too large")
	}
	return json.Unmarshal(text, v)
}

// read is what a ConfigMap has under a key.
func read(m *corev1.ConfigMap, key string) ([]byte, error) {
	b, ok := m.BinaryData[key]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s/%s has no %s", m.Namespace, m.Name, key)
	}
	return b, nil
}
