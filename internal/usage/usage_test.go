//go:build unix

package usage

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// recorder is a test that only notes that it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Errorf(string, ...any) { r.failed = true }

var kept []byte

func TestBound(t *testing.T) {
	for name, c := range map[string]struct {
		f    func()
		fail bool
	}{
		"nothing": {f: func() {}},
		"sleep":   {f: func() { time.Sleep(30 * time.Millisecond) }},
		"work": {fail: true, f: func() {
			for start := spent(); spent()-start < 400*time.Millisecond; {
				continue
			}
		}},
		"memory": {fail: true, f: func() {
			kept = make([]byte, 512<<20)
			runtime.KeepAlive(kept)
			kept = nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{TB: t}
			Bound(r, 30*time.Millisecond, 32<<20, c.f)
			require.Equal(t, c.fail, r.failed)
		})
	}
}
