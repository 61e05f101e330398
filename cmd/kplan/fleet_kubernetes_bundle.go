package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"

	"github.com/kplan-dev/kplan/fleet/engine/kubernetes/object"
)

// The media types of a fleet's plan in a registry.
const (
	fleetBundleType  = "application/vnd.kplan.fleet.bundle.v1.tar+gzip"
	fleetBundleAbout = "application/vnd.kplan.fleet.bundle.config.v1+json"
	// maxFleetBundle is how much a worker takes from a registry.
	maxFleetBundle = 256 << 20
)

// push brings the archive of a plan's files to a registry, and says where it is.
func (a *app) push(ctx context.Context, address string, archive []byte) (object.Bundle, error) {
	b := object.Bundle{Digest: object.Digest(archive), Repository: strings.TrimPrefix(address, ociScheme)}
	to, _, err := a.repository(ociScheme + b.Repository)
	if err != nil {
		return b, err
	}
	b.PlainHTTP = to.PlainHTTP
	put := func(kind string, text []byte) (ocispec.Descriptor, error) {
		d := content.NewDescriptorFromBytes(kind, text)
		there, err := to.Blobs().Exists(ctx, d)
		if err == nil && !there {
			err = to.Blobs().Push(ctx, d, bytes.NewReader(text))
		}
		return d, err
	}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest, ArtifactType: fleetBundleType}
	layer, err := put(fleetBundleType, archive)
	if err == nil {
		manifest.Layers = []ocispec.Descriptor{layer}
		manifest.Config, err = put(fleetBundleAbout, []byte("{}"))
	}
	if err == nil {
		var text []byte
		if text, err = json.Marshal(manifest); err == nil {
			tag := strings.Replace(b.Digest, ":", "-", 1) // else the registry may remove what nothing names
			err = to.PushReference(ctx, content.NewDescriptorFromBytes(manifest.MediaType, text), bytes.NewReader(text), tag)
		}
	}
	if err != nil {
		return b, fmt.Errorf("pushing the plan's files to %s: %w", address, err)
	}
	return b, nil
}

// pull gets the archive of a plan's files from a registry. Its digest is for the caller to
// check, as that of any other.
func (a *app) pull(ctx context.Context, b object.Bundle) ([]byte, error) {
	from, _, err := a.repository(ociScheme + b.Repository)
	if err != nil {
		return nil, err
	}
	from.PlainHTTP = from.PlainHTTP || b.PlainHTTP
	d, err := from.Blobs().Resolve(ctx, b.Digest)
	if err == nil && d.Size > maxFleetBundle {
		err = fmt.Errorf("it has %d MiB", d.Size>>20)
	}
	var text []byte
	if err == nil {
		var r io.ReadCloser
		if r, err = from.Blobs().Fetch(ctx, d); err == nil {
			text, err = io.ReadAll(io.LimitReader(r, maxFleetBundle))
			_ = r.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("getting the plan's files from %s%s: %w", ociScheme, b.Repository, err)
	}
	return text, nil
}
