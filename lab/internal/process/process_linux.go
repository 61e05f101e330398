package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Child is a process that this program started; Done tells when it ends.
type Child struct {
	Record
	done chan struct{} // closed by the goroutine that reaps the process
	err  error         // how it ended; read after done
}

// Done is closed when the process has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Err says how the process ended; call it after Done is closed.
func (c *Child) Err() error {
	if c.err == nil {
		return errors.New("exited with status 0")
	}
	return c.err
}

// Start runs spec in a session of its own, so that neither ^C nor the end of
// this program reaches it, and saves its record in dir.
func Start(spec Spec, dir string) (*Child, error) {
	if err := os.MkdirAll(filepath.Dir(spec.Log), 0o700); err != nil {
		return nil, err
	}
	log, err := os.OpenFile(spec.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(spec.Args[0], spec.Args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), spec.Env...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	child := &Child{done: make(chan struct{})}
	child.Record = Record{Spec: spec, PID: cmd.Process.Pid, Boot: boot(), Started: time.Now()}
	// The child cannot be reaped, so its id not reused, before Wait below.
	if child.Start, _, err = stat(child.PID); err == nil {
		err = child.Save(dir)
	}
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return nil, fmt.Errorf("record %s: %w", spec.Name, err)
	}
	go func() {
		child.err = cmd.Wait()
		close(child.done)
	}()
	return child, nil
}

// Signal sends s to the very process of the record; nothing if it is gone.
func (r Record) Signal(s syscall.Signal) error {
	// The descriptor pins the process, so the check cannot grow stale.
	fd, err := unix.PidfdOpen(r.PID, 0)
	if err != nil {
		return nil // no such process
	}
	defer unix.Close(fd)
	if !r.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("signal %s (process %d): %w", r.Name, r.PID, err)
	}
	return nil
}

// Stop asks the process to end and kills it after grace (at once if zero).
// It returns when the process is gone.
func (r Record) Stop(ctx context.Context, grace time.Duration) error {
	if grace > 0 {
		if err := r.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		if r.await(ctx, grace) {
			return nil
		}
	}
	if err := r.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !r.await(context.WithoutCancel(ctx), 10*time.Second) {
		return fmt.Errorf("%s (process %d) survives SIGKILL", r.Name, r.PID)
	}
	return nil
}

// await reports whether the process ended within d.
func (r Record) await(ctx context.Context, d time.Duration) bool {
	ended := func(context.Context) (bool, error) { return !r.Alive(), nil }
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, d, true, ended) == nil
}
