package source

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"sigs.k8s.io/yaml"

	"github.com/kplan-dev/kplan/runner"
)

// UnverifiedError says that a chart's signature is missing or not good.
type UnverifiedError struct{ error }

// Unwrap returns what is wrong.
func (e *UnverifiedError) Unwrap() error { return e.error }

func unverified(format string, args ...any) error {
	return runner.Permanent(&UnverifiedError{fmt.Errorf(format, args...)})
}

// CheckProvenance checks a chart's archive by its provenance file, as helm verify does:
// a key of the keyring has signed the digest that the archive has. file is the name of
// the archive, NAME-VERSION.tgz.
func CheckProvenance(keyring, file string, archive, provenance []byte) error {
	keys, err := readKeyring(keyring)
	if err != nil {
		return runner.Permanent(fmt.Errorf("reading the keyring: %w", err))
	}
	block, _ := clearsign.Decode(provenance)
	if block == nil {
		return unverified("its provenance file is not signed")
	}
	if _, err := openpgp.CheckDetachedSignature(keys, bytes.NewReader(block.Bytes), block.ArmoredSignature.Body, nil); err != nil {
		return unverified("the signature of its provenance file is not by a key of the keyring: %w", err)
	}
	// Chart.yaml, then the digests, parted by a line of dots (helm.sh/helm/v3
	// pkg/provenance, messageBlock).
	parts := strings.Split(string(block.Plaintext), "\n...\n")
	var sums struct {
		Files map[string]string `json:"files"`
	}
	if len(parts) < 2 || yaml.Unmarshal([]byte(parts[1]), &sums) != nil {
		return unverified("its provenance file has no digests")
	}
	want, ok := sums.Files[file]
	if !ok {
		return unverified("its provenance file is not of %s", file)
	}
	if got := digestOf(archive); got != want {
		return unverified("the archive is not the one that was signed: it is %s, signed is %s", got, want)
	}
	return nil
}

// readKeyring reads public keys, in PGP's binary form or as text.
func readKeyring(file string) (openpgp.EntityList, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	read := openpgp.ReadKeyRing
	if bytes.Contains(b, []byte("-----BEGIN PGP")) {
		read = openpgp.ReadArmoredKeyRing
	}
	keys, err := read(bytes.NewReader(b))
	if err == nil && len(keys) == 0 {
		err = errors.New("it has no keys")
	}
	return keys, err
}
