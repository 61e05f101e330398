package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/kplan-dev/kplan/lab/internal/debian"
	"github.com/kplan-dev/kplan/lab/internal/image"
)

// Image is something to load: a static binary, or a tar file of images.
type Image struct {
	Name   string // of the image; not used with Tar
	Binary string
	User   string // uid[:gid] of its process; empty is root
	Tar    string // as docker save or crane pull write it
}

// Load puts an image into the lab's containerd, where pods find it without a
// pull. The same name replaces what was there.
func (l *Lab) Load(ctx context.Context, i Image) error {
	if l.Nodes == 0 {
		return &UsageError{fmt.Sprintf("lab %s has no node to load images into", l.Name)}
	}
	if i.Tar != "" {
		file, err := os.Open(i.Tar)
		if err != nil {
			return err
		}
		defer file.Close()
		return importTar(ctx, l.node().Socket(), file)
	}
	reader, writer := io.Pipe()
	written := make(chan error, 1)
	go func() { // ends when all is written, or the reader is closed
		err := image.Write(writer, i.Binary, image.Options{Name: i.Name, User: i.User})
		_ = writer.CloseWithError(err)
		written <- err
	}()
	err := importTar(ctx, l.node().Socket(), reader)
	_ = reader.Close()
	if fault := <-written; fault != nil && !errors.Is(fault, io.ErrClosedPipe) {
		return fmt.Errorf("load %s: %w", i.Name, fault)
	}
	return err
}

func importTar(ctx context.Context, socket string, r io.Reader) error {
	var output bytes.Buffer
	cmd := exec.CommandContext(ctx, debian.Find("ctr"), "--address", socket, "--namespace", "k8s.io", "images", "import", "-")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = r, &output, &output
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("load image: %w: %s", err, bytes.TrimSpace(output.Bytes()))
	}
	return nil
}
