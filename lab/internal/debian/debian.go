// Package debian installs, by apt-get, the programs of a node that come from
// Debian rather than from Go modules. It starts no service and changes
// nothing when all programs are there.
package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// needs maps each package to a file that shows that it is installed; a bare
// name is looked for in the usual folders.
var needs = map[string]string{
	"containerd":                  "containerd",
	"runc":                        "runc",
	"containernetworking-plugins": "/usr/lib/cni/bridge",
	"nftables":                    "nft",
	"iptables":                    "iptables",
	"conntrack":                   "conntrack",
	"iproute2":                    "ip",
	"mount":                       "mount",
}

// folders are searched even when PATH is a plain user's, without sbin.
var folders = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

// Find returns the path of a program, or "" when it is not installed.
func Find(program string) string {
	if path, err := exec.LookPath(program); err == nil {
		return path
	}
	for _, folder := range folders {
		path := filepath.Join(folder, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// Missing lists the packages that are not installed, sorted.
func Missing() []string {
	var missing []string
	for name, shows := range needs {
		if Find(shows) == "" {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// Install installs what is missing and says so on progress. The package
// index is fetched only when the first try fails without it. Services of the
// packages are kept from starting.
func Install(ctx context.Context, progress io.Writer) error {
	missing := Missing()
	if len(missing) == 0 {
		return nil
	}
	failed := func(err error, said string) error {
		return fmt.Errorf("cannot install %s: %w\n%s", strings.Join(missing, " "), err, said)
	}
	if Find("apt-get") == "" {
		return failed(errors.New("this is not Debian (no apt-get); install them by hand"), "")
	}
	fmt.Fprintf(progress, "installing %s with apt-get…\n", strings.Join(missing, " "))
	restore, err := holdServices()
	if err != nil {
		return failed(err, "")
	}
	defer restore()
	install := append([]string{"install", "-y", "--no-install-recommends"}, missing...)
	if _, err := apt(ctx, install...); err == nil {
		return nil
	}
	fmt.Fprintln(progress, "fetching the package index with apt-get update…")
	output, err := apt(ctx, "update")
	if err == nil {
		output, err = apt(ctx, install...)
	}
	if err != nil {
		return failed(err, output)
	}
	return nil
}

// apt runs apt-get and returns the last lines of what it said.
func apt(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, Find("apt-get"), append([]string{"-q", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err := cmd.Run()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	lines := strings.Split(strings.TrimSpace(output.String()), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n"), err
}

// holdServices makes maintainer scripts start no services until restore is
// called. A policy that is there already is left alone: it is the owner's.
func holdServices() (restore func(), err error) {
	const policy = "/usr/sbin/policy-rc.d"
	file, err := os.OpenFile(policy, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString("#!/bin/sh\nexit 101\n")
	return func() { _ = os.Remove(policy) }, errors.Join(err, file.Close())
}
