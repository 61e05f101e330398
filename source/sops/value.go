package sops

import (
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"math"
	"regexp"
	"strconv"
	"time"
	"unicode/utf8"
)

// sealed is a value that is encrypted. SOPS pins no end, and so neither is one here.
var sealed = regexp.MustCompile(`^ENC\[AES256_GCM,data:(.+),iv:(.+),tag:(.+),type:(.+)\]`)

// What can be wrong with a value.
var (
	errForm  = errors.New("is not in the form that SOPS gives to encrypted values")
	errOpen  = errors.New("cannot be decrypted: it was changed, or moved from another field")
	errType  = errors.New("is of a type that kplan does not know")
	errPlain = errors.New("does not hold what its type says")
)

// comment is what the value of an item of a list can be: SOPS keeps comments as
// items.
type comment struct{}

// open decrypts a value that stands at a path. It returns its value, and the bytes that
// go into the sum.
func open(text string, key []byte, path string) (value any, summed []byte, err error) {
	if text == "" { // SOPS leaves empty texts as they are
		return "", nil, nil
	}
	m := sealed.FindStringSubmatch(text)
	if m == nil {
		return nil, nil, errForm
	}
	var parts [3][]byte
	for i := range parts {
		if parts[i], err = base64.StdEncoding.DecodeString(m[i+1]); err != nil {
			return nil, nil, errForm
		}
	}
	data, iv, tag := parts[0], parts[1], parts[2]
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, nil, errOpen
	}
	if len(tag) != aes.BlockSize {
		return nil, nil, errForm
	}
	gcm, err := cipher.NewGCMWithNonceSize(block, len(iv))
	if err != nil {
		return nil, nil, errForm
	}
	plain, err := gcm.Open(nil, iv, append(data, tag...), []byte(path))
	if err != nil {
		return nil, nil, errOpen
	}
	return typed(plain, m[4])
}

// typed reads what was encrypted as the type says. What goes into the sum is SOPS's
// own spelling of it, in which booleans have a capital.
func typed(plain []byte, kind string) (value any, summed []byte, err error) {
	text := string(plain)
	switch kind {
	case "str":
		if !utf8.Valid(plain) {
			return nil, nil, errPlain
		}
		return text, plain, nil
	case "bytes":
		if !utf8.Valid(plain) {
			return nil, nil, errType
		}
		return text, plain, nil
	case "int":
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, nil, errPlain
		}
		return int64(n), []byte(strconv.Itoa(n)), nil
	case "float":
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, nil, errPlain
		}
		return f, floatText(f), nil
	case "bool":
		b, err := strconv.ParseBool(text)
		if err != nil {
			return nil, nil, errPlain
		}
		return b, boolText(b), nil
	case "time":
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, nil, errPlain
		}
		summed, err := t.MarshalText()
		if err != nil {
			return nil, nil, errPlain
		}
		return text, summed, nil
	case "comment":
		return comment{}, nil, nil
	}
	return nil, nil, errType
}

func floatText(f float64) []byte { return strconv.AppendFloat(nil, f, 'f', -1, 64) }

func boolText(b bool) []byte {
	if b {
		return []byte("True")
	}
	return []byte("False")
}
