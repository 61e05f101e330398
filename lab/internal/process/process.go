// Package process starts long-running processes that outlive their starter,
// and finds, watches and ends them later by a record on disk.
//
// A record names a process by id, start time and boot, so an id that the
// kernel gave to somebody else is never signalled. The package does not
// restart what dies, and knows nothing about what it runs.
package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/kplan-dev/kplan/lab/internal/file"
)

// ErrUnsupported is returned by everything that needs Linux's /proc.
var ErrUnsupported = errors.New("processes can be kept track of on Linux only")

// Spec says what to start.
type Spec struct {
	Name string   `json:"name"`          // unique in its folder, e.g. "etcd"
	Args []string `json:"args"`          // program and arguments; the program is an absolute path
	Env  []string `json:"env,omitempty"` // added to the environment
	Log  string   `json:"log"`           // file that takes stdout and stderr; appended to
}

// Record identifies a started process for ever.
type Record struct {
	Spec
	PID     int       `json:"pid"`
	Start   uint64    `json:"start"` // clock ticks since boot, /proc/PID/stat field 22
	Boot    string    `json:"boot"`  // /proc/sys/kernel/random/boot_id
	Started time.Time `json:"started"`
}

// Save writes the record to dir/NAME.json, whole or not at all.
func (r Record) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return file.Write(filepath.Join(dir, r.Name+".json"), data)
}

// Find reads the record NAME of dir; the error is fs.ErrNotExist if there is none.
func Find(dir, name string) (Record, error) {
	var r Record
	data, err := os.ReadFile(filepath.Join(dir, name+".json"))
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("process record %s: %w", name, err)
	}
	return r, nil
}

// List reads all records of dir in the order in which they were started.
// A folder that does not exist holds none; unreadable records are skipped,
// since what they named cannot be known any more.
func List(dir string) ([]Record, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.json"))
	var records []Record
	for _, path := range paths {
		if r, err := Find(dir, strings.TrimSuffix(filepath.Base(path), ".json")); err == nil {
			records = append(records, r)
		}
	}
	slices.SortStableFunc(records, func(a, b Record) int { return a.Started.Compare(b.Started) })
	return records, err
}

// Alive reports whether the very process of the record still runs.
func (r Record) Alive() bool {
	if r.PID <= 0 || r.Boot != boot() {
		return false
	}
	start, state, err := stat(r.PID)
	return err == nil && start == r.Start && state != "Z" && state != "X"
}

// Of makes a record of a process that somebody else started.
func Of(pid int, name string) (Record, error) {
	start, _, err := stat(pid)
	return Record{Spec: Spec{Name: name}, PID: pid, Start: start, Boot: boot()}, err
}

// stat reads a process's start time, in clock ticks since boot, and its state.
func stat(pid int) (start uint64, state string, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, "", err
	}
	status, err := p.Stat()
	return status.Starttime, status.State, err
}

func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// Tail returns the last n lines of a log file, or a note why there are none.
func Tail(path string, n int) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return "(no log: " + err.Error() + ")"
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
