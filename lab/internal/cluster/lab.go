// Package cluster brings a lab up and down: a real Kubernetes of one node, or
// of none, made of processes on this machine. Everything a lab owns is in its
// state folder, or is found by what is recorded there.
//
// It does not build programs (package build) and does not talk to people
// other than by lines of progress.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/kplan-dev/kplan/lab/internal/file"
	"github.com/kplan-dev/kplan/lab/internal/flock"
	"github.com/kplan-dev/kplan/lab/internal/node"
)

// Config is what a lab is made of; it is kept as lab.json in its folder.
type Config struct {
	Name     string    `json:"name"`
	Nodes    int       `json:"nodes"` // 0 or 1
	Version  string    `json:"version"`
	Created  time.Time `json:"created"`
	Ready    bool      `json:"ready"`    // up has run to its end
	API      int       `json:"api"`      // the API server's port on 127.0.0.1
	Registry int       `json:"registry"` // the chart registry's port on 127.0.0.1
	Forward  []string  `json:"forward,omitempty"`
	Expose   []string  `json:"expose,omitempty"`
	Charts   []string  `json:"charts,omitempty"` // folders that the registry serves
	Audit    bool      `json:"audit,omitempty"`
	Kube     string    `json:"kube"` // the multi-call binary
}

// Lab is one lab, whether it exists or not.
type Lab struct {
	Config
	Folder
}

// Folder is a lab's state folder; its methods name what is in it.
type Folder struct{ Dir string }

// Kubeconfig is the administrator's kubeconfig file, for use on this machine.
func (f Folder) Kubeconfig() string { return f.path("kubeconfig") }

// Log is the file with the output of a component.
func (f Folder) Log(component string) string { return f.path("logs", component+".log") }

// AuditLog is the API server's audit log; it exists with Config.Audit only.
func (f Folder) AuditLog() string { return f.path("logs", "audit.jsonl") }

// Bin is a folder with kubectl in it.
func (f Folder) Bin() string { return f.path("bin") }

func (f Folder) path(parts ...string) string {
	return filepath.Join(append([]string{f.Dir}, parts...)...)
}

func (f Folder) auditPolicy() string                  { return f.path("audit-policy.yaml") }
func (f Folder) records() string                      { return f.path("processes") }
func (f Folder) credential(name string) string        { return f.path("pki", name) }
func (f Folder) kubeconfigOf(component string) string { return f.path("pki", component+".kubeconfig") }
func (f Folder) etcdURL() string                      { return "unix://" + f.path("etcd.sock") }

// Home is where state folders are: $KPLAN_LAB_HOME, /var/lib/kplan-lab for
// root, else the user's state folder (XDG).
func Home() (string, error) {
	if dir := os.Getenv("KPLAN_LAB_HOME"); dir != "" {
		return filepath.Abs(dir)
	}
	if os.Geteuid() == 0 {
		return "/var/lib/kplan-lab", nil
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "kplan-lab"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".local", "state", "kplan-lab"), err
}

// validName keeps names short: they are part of Unix socket paths (at most
// 107 bytes) and of network names.
var validName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// ErrAbsent says that there is no lab of that name.
var ErrAbsent = errors.New("there is no such lab")

// Open returns the lab called name, with its configuration if it exists.
func Open(name string) (*Lab, error) {
	if !validName.MatchString(name) {
		return nil, &UsageError{fmt.Sprintf("lab name %q: want at most 32 of a-z, 0-9 and -", name)}
	}
	home, err := Home()
	if err != nil {
		return nil, err
	}
	lab := &Lab{Folder: Folder{filepath.Join(home, name)}, Config: Config{Name: name}}
	data, err := os.ReadFile(lab.path("lab.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return lab, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &lab.Config); err != nil {
		return nil, fmt.Errorf("%s: %w", lab.path("lab.json"), err)
	}
	return lab, nil
}

// OpenExisting opens a lab that exists, else returns ErrAbsent.
func OpenExisting(name string) (*Lab, error) {
	lab, err := Open(name)
	if err == nil && !lab.Exists() {
		err = fmt.Errorf("%s: %w", name, ErrAbsent)
	}
	return lab, err
}

// UsageError is a fault of the one who called.
type UsageError struct{ Message string }

func (e *UsageError) Error() string { return e.Message }

// Exists reports whether the lab has a state folder.
func (l *Lab) Exists() bool {
	_, err := os.Stat(l.Dir)
	return err == nil
}

// Names lists the labs that exist.
func Names() ([]string, error) {
	home, err := Home()
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() && validName.MatchString(entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

// Server is the API server's address on this machine.
func (l *Lab) Server() string { return fmt.Sprintf("https://127.0.0.1:%d", l.API) }

// inside is the API server's address for the lab's own processes.
func (l *Lab) inside() string {
	if l.Nodes == 0 {
		return l.Server()
	}
	return "https://" + node.Address + ":6443"
}

func (l *Lab) node() node.Node { return node.Node{Lab: l.Name, Dir: l.Dir} }

func (l *Lab) save() error {
	data, err := json.MarshalIndent(l.Config, "", "  ")
	if err != nil {
		return err
	}
	return file.Write(l.path("lab.json"), append(data, '\n'))
}

// lock keeps other programs from bringing the same lab up or down.
func (l *Lab) lock(ctx context.Context, say Progress) (func(), error) {
	return flock.Lock(ctx, filepath.Join(filepath.Dir(l.Dir), "."+l.Name+".lock"), func() {
		say("another kplan-lab works on lab %s; waiting for it…", l.Name)
	})
}

// Progress takes a line for people, without a line end.
type Progress func(format string, args ...any)
