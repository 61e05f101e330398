//go:build unix

// Package usage tells tests what a piece of code takes of the machine, so that a
// bound holds on a busy machine too. It is not for benchmarks: it is coarse.
package usage

import (
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"time"
)

// Bound calls f, and fails the test if the process took more CPU time than cpu
// meanwhile (ten times that with the race detector), or if its heap, garbage
// included, grew by more than so many bytes beyond its largest size before. Nothing
// else may run in the process.
func Bound(t testing.TB, cpu time.Duration, heap uint64, f func()) {
	t.Helper()
	if Race() {
		cpu *= 10
		heap *= 10
	}
	before, size := spent(), heapSize()
	f()
	if took := spent() - before; took > cpu {
		t.Errorf("it took %s of CPU time, more than %s", took, cpu)
	}
	if now := heapSize(); now > size+heap {
		t.Errorf("the heap grew by %d bytes, more than %d", now-size, heap)
	}
}

// Race reports whether the test was built with the race detector.
func Race() bool {
	info, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// heapSize counts what is given back to the system too, so that it hardly shrinks.
func heapSize() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapSys
}

// spent is the CPU time of the process.
func spent() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // it has no reason to fail
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
