package load_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/kplan-dev/kplan/plan/load"
)

// largePlan has n steps of all kinds, most of which need two others.
func largePlan(n int) []byte {
	var b strings.Builder
	b.WriteString("apiVersion: kplan.dev/v1alpha1\nkind: Plan\nmetadata: {name: large}\nvars: {v: {default: 1.2.3}}\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "- name: s%d\n", i)
		if i >= 13 {
			fmt.Fprintf(&b, "  needs: [s%d, s%d]\n", i-10, i-13)
		}
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "  helm: {chart: oci://r.example/c, version: \"${{vars.v}}\", values: {a: %d}}\n", i)
		case 1:
			b.WriteString("  wait: {resource: pod/x, for: condition=Ready}\n")
		case 2:
			b.WriteString("  apply: {files: [a.yaml], wait: ready}\n")
		case 3:
			fmt.Fprintf(&b, "  webhook: {release: s%d}\n", i-3)
		}
	}
	return []byte(b.String())
}

// The bar is one second and 100 MB for 10,000 steps: read, checked and ordered.
func BenchmarkLargePlan(b *testing.B) {
	src := largePlan(10_000)
	b.SetBytes(int64(len(src)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := load.Parse("p.yaml", src, load.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if len(p.Graph().Order()) != 10_000 {
			b.Fatal("steps are missing")
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(peakHeap(func() { _, _ = load.Parse("p.yaml", src, load.Options{}) }))/1e6, "peak-MB")
}

// peakHeap gives how much the heap grew at most while f ran, garbage included.
func peakHeap(f func()) uint64 {
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	stop, done := make(chan struct{}), make(chan uint64)
	go func() { // ends when stop is closed
		var peak uint64
		for {
			runtime.ReadMemStats(&now)
			peak = max(peak, now.HeapAlloc)
			select {
			case <-stop:
				done <- peak
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	f()
	close(stop)
	if peak := <-done; peak > before.HeapAlloc {
		return peak - before.HeapAlloc
	}
	return 0
}
