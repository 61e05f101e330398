package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Holder is the process that runs a fleet.
type Holder struct {
	Run   string    `json:"run"`
	By    string    `json:"by"`
	PID   int       `json:"pid"`
	Since time.Time `json:"since"`
}

// HeldError says that another process runs the fleet.
type HeldError struct {
	Fleet  string
	Holder Holder
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("fleet %s is being run by another: run %s of %s (pid %d), since %s", e.Fleet, e.Holder.Run, e.Holder.By, e.Holder.PID, e.Holder.Since.UTC().Format(time.RFC3339))
}

// Hint says what to do about it.
func (e *HeldError) Hint() string {
	return "kplan fleet status shows how far it is, and kplan fleet abort stops it"
}

// Lock is held by the process that runs a fleet. It ends with the process.
type Lock struct{ lock *flock.Flock }

// lookTime is far longer than it takes to look whether a fleet is being run.
const lookTime = 200 * time.Millisecond

// Lock takes the lock of a fleet. It fails with a *HeldError when another process has it.
func (f Folder) Lock(fleet string, h Holder) (*Lock, error) {
	if err := f.make(); err != nil {
		return nil, err
	}
	lock := flock.New(f.lockPath(fleet))
	ctx, cancel := context.WithTimeoutCause(context.Background(), lookTime, errors.New("held"))
	defer cancel()
	taken, err := lock.TryLockContext(ctx, lookTime/10) // who looks has it for a moment
	if err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("locking the fleet: %w", err)
	}
	if !taken {
		return nil, &HeldError{Fleet: fleet, Holder: f.holder(fleet)}
	}
	b, err := json.Marshal(h)
	if err == nil {
		err = os.WriteFile(f.holderPath(fleet), b, 0o600)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &Lock{lock}, nil
}

// Release gives the lock back.
func (l *Lock) Release() { _ = l.lock.Close() }

// Active returns who runs a fleet now; nil when nobody does.
func (f Folder) Active(fleet string) *Holder {
	if _, err := os.Stat(f.lockPath(fleet)); err != nil {
		return nil
	}
	lock := flock.New(f.lockPath(fleet))
	defer func() { _ = lock.Close() }()
	if free, err := lock.TryRLock(); free || err != nil {
		return nil
	}
	h := f.holder(fleet)
	return &h
}

func (f Folder) holder(fleet string) (h Holder) {
	if b, err := os.ReadFile(f.holderPath(fleet)); err == nil {
		_ = json.Unmarshal(b, &h) // people miss it, and nothing else
	}
	return h
}

func (f Folder) lockPath(fleet string) string {
	return filepath.Join(string(f), FileName(fleet)+".lock")
}

// holderPath is beside the lock: Windows lets nobody read a file that is locked.
func (f Folder) holderPath(fleet string) string {
	return filepath.Join(string(f), FileName(fleet)+".holder")
}
