package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The commands of the documentation install what was released, to the letter, and unpack
// nothing that was changed on its way.
func TestDocumentedCommands(t *testing.T) {
	for _, tt := range []struct{ name, page, heading, archive, tool string }{
		{"README", "README.md", "", "kplan_linux_amd64.tar.gz", "sha256sum"},
		{"Linux", "docs/how-to/install.md", "## Linux", "kplan_linux_amd64.tar.gz", "sha256sum"},
		{"macOS", "docs/how-to/install.md", "## macOS", "kplan_darwin_arm64.tar.gz", "shasum"},
		{"Debian", "docs/how-to/install.md", "## Debian, Ubuntu", "kplan_linux_amd64.deb", "sha256sum"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, tool := range []string{"sh", "curl", "tar", tt.tool} {
				if _, err := exec.LookPath(tool); err != nil {
					t.Skipf("the commands need %s", tool)
				}
			}
			commands := block(t, filepath.Join("../../..", tt.page), tt.heading)
			require.Contains(t, commands, tt.archive)

			archive := targz(t, "kplan", "LICENSE")
			dir, _, err := do(t, commands, fstest.MapFS{
				"checksums.txt": {Data: checksums(tt.archive, archive)},
				tt.archive:      {Data: archive},
			})
			require.NoError(t, err)
			assert.FileExists(t, filepath.Join(dir, "kplan"))

			dir, output, err := do(t, commands, fstest.MapFS{
				"checksums.txt": {Data: checksums(tt.archive, archive)},
				tt.archive:      {Data: targz(t, "kplan", "evil")},
			})
			require.Error(t, err)
			assert.Contains(t, output, "FAILED")
			assert.NoFileExists(t, filepath.Join(dir, "kplan"))

			dir, _, err = do(t, commands, fstest.MapFS{
				"checksums.txt": {Data: checksums("another.tar.gz", archive)},
				tt.archive:      {Data: archive},
			})
			require.Error(t, err, "checksums that do not have the archive say nothing of it")
			assert.NoFileExists(t, filepath.Join(dir, "kplan"))

			dir, _, err = do(t, commands, fstest.MapFS{tt.archive: {Data: archive}})
			require.Error(t, err, "there are no checksums")
			assert.NoFileExists(t, filepath.Join(dir, "kplan"))
		})
	}
}

// do runs commands of a shell in an empty folder, where files are the newest release. It
// returns the folder, and what they wrote.
func do(t *testing.T, commands string, files fstest.MapFS) (dir, output string, err error) {
	t.Helper()
	cert, ca, err := certificate("github.com", time.Now())
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(releases(files, "v1.2.3"))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	home := t.TempDir()
	require.NoError(t, writeCurlrc(home, home, ca, server.Listener.Addr()))

	cmd := exec.CommandContext(t.Context(), "sh", "-c", commands)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"HOME=" + home, "PATH=" + installer(t) + ":" + os.Getenv("PATH"), "LC_ALL=C"}
	b, err := cmd.CombinedOutput()
	return cmd.Dir, string(b), err
}

// installer is a folder with a sudo that installs no package: it makes the file kplan
// where it was asked to.
func installer(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncase $* in 'dpkg -i kplan_'*.deb) touch kplan ;; *) exit 1 ;; esac\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "sudo"), []byte(script), 0o700)) //nolint:gosec // it is a program
	return dir
}

// block is the first block of shell commands on a page, below a heading.
func block(t *testing.T, page, heading string) string {
	t.Helper()
	b, err := os.ReadFile(page)
	require.NoError(t, err)
	_, below, found := strings.Cut("\n"+string(b), "\n"+heading)
	require.True(t, found, "%s has no %s", page, heading)
	commands := regexp.MustCompile("(?s)\n```sh\n(.*?)```").FindStringSubmatch(below)
	require.NotNil(t, commands, "%s has no commands below %q", page, heading)
	return commands[1]
}

// checksums are those of a release: what sha256sum writes.
func checksums(name string, content []byte) []byte {
	return fmt.Appendf(nil, "%x  %s\n%064x  other.zip\n", sha256.Sum256(content), name, 0)
}

// targz is an archive of files, each of which has its name as content.
func targz(t *testing.T, names ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range names {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(name))}))
		_, err := w.Write([]byte(name))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}
