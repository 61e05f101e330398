package source

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/kplan-dev/kplan/runner"
)

// Where cosign keeps signatures, in the form until version 2 and in that since
// (github.com/sigstore/cosign specs/SIGNATURE_SPEC.md and specs/BUNDLE_SPEC.md).
const (
	simpleSigning   = "application/vnd.dev.cosign.simplesigning.v1+json"
	signatureNote   = "dev.cosignproject.cosign/signature"
	bundleType      = "application/vnd.dev.sigstore.bundle.v0.3+json"
	inTotoType      = "application/vnd.in-toto+json"
	cosignPredicate = "https://sigstore.dev/cosign/sign/v1"
	// mostSignatures bounds how many signatures of one thing are looked at.
	mostSignatures = 50
)

// checkCosign checks that a key has signed a manifest by cosign sign --key. Transparency
// logs are not asked: the key is what is trusted. Sigstore's own libraries would bring
// 223 packages for it.
func (s *Store) checkCosign(ctx context.Context, r *remote.Repository, digest, keyFile string) error {
	key, err := readPublicKey(keyFile)
	if err != nil {
		return runner.Permanent(fmt.Errorf("reading the key of cosign: %w", err))
	}
	old, err := s.simpleSignatures(ctx, r, digest)
	if err != nil {
		return fmt.Errorf("looking for its signatures: %w", err)
	}
	bundles, err := s.bundleSignatures(ctx, r, digest)
	if err != nil {
		return fmt.Errorf("looking for its signatures: %w", err)
	}
	all := slices.Concat(old, bundles)
	for _, signed := range all {
		if signed.by(key) && signed.digest == digest {
			return nil
		}
	}
	if len(all) == 0 {
		return unverified("it has no signature of cosign")
	}
	return unverified("none of its %d signatures is by the key", len(all))
}

// signature is one signature over a message that names a digest.
type signature struct {
	message, value []byte
	// digest is the one that the message names.
	digest string
}

// by reports whether a key has made the signature.
func (s signature) by(key crypto.PublicKey) bool {
	sum := sha256.Sum256(s.message)
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return ecdsa.VerifyASN1(key, sum[:], s.value)
	case ed25519.PublicKey:
		return ed25519.Verify(key, s.message, s.value)
	case *rsa.PublicKey:
		return rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], s.value) == nil
	}
	return false
}

// simpleSignatures are those under the tag sha256-….sig.
func (s *Store) simpleSignatures(ctx context.Context, r *remote.Repository, digest string) ([]signature, error) {
	_, text, err := s.manifestText(ctx, r, strings.Replace(digest, ":", "-", 1)+".sig")
	if errors.Is(err, errdef.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var m ocispec.Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}
	var all []signature
	for _, layer := range m.Layers[:min(len(m.Layers), mostSignatures)] {
		if layer.MediaType != simpleSigning {
			continue
		}
		payload, err := s.blob(ctx, r, layer)
		if err != nil {
			return nil, err
		}
		value, err := base64.StdEncoding.DecodeString(layer.Annotations[signatureNote])
		var says struct {
			Critical struct {
				Image struct {
					Digest string `json:"docker-manifest-digest"`
				} `json:"image"`
			} `json:"critical"`
		}
		if err == nil && json.Unmarshal(payload, &says) == nil {
			all = append(all, signature{message: payload, value: value, digest: says.Critical.Image.Digest})
		}
	}
	return all, nil
}

// bundle is what is read of Sigstore's bundle (github.com/sigstore/protobuf-specs).
type bundle struct {
	Envelope struct {
		Payload     []byte `json:"payload"`
		PayloadType string `json:"payloadType"`
		Signatures  []struct {
			Sig []byte `json:"sig"`
		} `json:"signatures"`
	} `json:"dsseEnvelope"`
}

// bundleSignatures are those in bundles that refer to a manifest.
func (s *Store) bundleSignatures(ctx context.Context, r *remote.Repository, digest string) ([]signature, error) {
	desc, err := r.Resolve(ctx, digest)
	if err != nil {
		return nil, err
	}
	var referrers []ocispec.Descriptor
	err = r.Referrers(ctx, desc, bundleType, func(found []ocispec.Descriptor) error {
		referrers = append(referrers, found...)
		return nil
	})
	if err != nil && !errors.Is(err, errdef.ErrNotFound) {
		return nil, err
	}
	var all []signature
	for _, d := range referrers[:min(len(referrers), mostSignatures)] {
		_, text, err := s.manifestText(ctx, r, d.Digest.String())
		if err != nil {
			return nil, err
		}
		var m ocispec.Manifest
		if json.Unmarshal(text, &m) != nil || len(m.Layers) == 0 {
			continue
		}
		content, err := s.blob(ctx, r, m.Layers[0])
		if err != nil {
			return nil, err
		}
		all = append(all, bundled(content, digest)...)
	}
	return all, nil
}

// bundled returns the signatures of a bundle that is about a digest.
func bundled(content []byte, digest string) []signature {
	var b bundle
	var says struct {
		Predicate string `json:"predicateType"`
		Subject   []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if json.Unmarshal(content, &b) != nil || b.Envelope.PayloadType != inTotoType || json.Unmarshal(b.Envelope.Payload, &says) != nil || says.Predicate != cosignPredicate {
		return nil
	}
	about := ""
	for _, subject := range says.Subject {
		if "sha256:"+subject.Digest["sha256"] == digest {
			about = digest
		}
	}
	var all []signature
	for _, one := range b.Envelope.Signatures {
		// What is signed of an envelope is its type and payload with their lengths
		// (github.com/secure-systems-lab/dsse protocol.md).
		message := fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(inTotoType), inTotoType, len(b.Envelope.Payload), b.Envelope.Payload)
		all = append(all, signature{message: message, value: one.Sig, digest: about})
	}
	return all
}

// readPublicKey reads the key that cosign generate-key-pair wrote as cosign.pub.
func readPublicKey(file string) (crypto.PublicKey, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("%s has no public key", file)
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}
