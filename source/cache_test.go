package source_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/kplan-dev/kplan/source"
)

// manyCharts is how many charts each process of TestProcessesShareCache fetches.
const manyCharts = 30

// fetchMany fetches them, and checks what it has got.
func fetchMany(t *testing.T, cache, repo string) {
	t.Helper()
	s := open(t, source.Options{Cache: cache})
	var group errgroup.Group
	for i := range manyCharts {
		group.Go(func() error {
			a, err := s.Chart(t.Context(), source.Chart{Name: fmt.Sprint("c", i), Repo: repo})
			if err == nil && string(a.Bytes) != fmt.Sprint("chart ", i) {
				err = fmt.Errorf("chart %d is %q", i, a.Bytes)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
}

// Several processes fill one cache at once. None sees half of a file, and nothing but
// whole files is left.
func TestProcessesShareCache(t *testing.T) {
	const variable = "KPLAN_TEST_FILL"
	if args, child := os.LookupEnv(variable); child {
		cache, repo, _ := strings.Cut(args, " ")
		fetchMany(t, cache, repo)
		return
	}
	noLogins(t)
	texts, index := map[string]string{}, "entries:\n"
	for i := range manyCharts {
		chart := fmt.Sprint("chart ", i)
		texts[fmt.Sprintf("/c%d.tgz", i)] = chart
		index += fmt.Sprintf("  c%d: [{name: c%d, version: 1.0.0, urls: [c%d.tgz], digest: %s}]\n", i, i, i, digest([]byte(chart))[7:])
	}
	texts["/index.yaml"] = index
	f, cache := serve(t, texts), t.TempDir()
	var group errgroup.Group
	for range 4 {
		group.Go(func() error {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestProcessesShareCache$")
			cmd.Env = append(os.Environ(), variable+"="+cache+" "+f.URL)
			out, err := cmd.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w: %s", err, out)
			}
			return err
		})
	}
	require.NoError(t, group.Wait())
	blobs, err := os.ReadDir(filepath.Join(cache, "blobs"))
	require.NoError(t, err)
	for _, e := range blobs {
		b, err := os.ReadFile(filepath.Join(cache, "blobs", e.Name()))
		require.NoError(t, err)
		require.Equal(t, e.Name(), digest(b)[7:])
	}
	require.Len(t, blobs, manyCharts+2, "the charts, the index, and what is read of it")

	before := f.asked["/c1.tgz"].Load()
	fetchMany(t, cache, f.URL)
	require.Equal(t, before, f.asked["/c1.tgz"].Load())
}

// A cache that is damaged or cannot be written costs time, and nothing else.
func TestBrokenCache(t *testing.T) {
	noLogins(t)
	const chart = "chart"
	f := serve(t, map[string]string{"/x.tgz": chart, "/index.yaml": "entries: {x: [{name: x, version: 1.0.0, urls: [x.tgz], digest: " + digest([]byte(chart))[7:] + "}]}"})
	cache := t.TempDir()
	fetch := func() {
		t.Helper()
		a, err := open(t, source.Options{Cache: cache}).Chart(t.Context(), source.Chart{Name: "x", Repo: f.URL})
		require.NoError(t, err)
		require.Equal(t, chart, string(a.Bytes))
	}
	fetch()
	files, err := filepath.Glob(filepath.Join(cache, "*", "*"))
	require.NoError(t, err)
	for _, file := range files {
		require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	}
	fetch()
	require.NoError(t, os.WriteFile(filepath.Join(t.TempDir(), "file"), nil, 0o600))
	cache = filepath.Join(cache, "blobs", filepath.Base(files[0]), "folder") // below a file
	fetch()
}
