package report

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// save writes a page to a file that a browser can open.
func save(t testing.TB, name string, page []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name+".html")
	require.NoError(t, os.WriteFile(file, page, 0o600))
	return file
}

// TestPictures opens every recorded run's page at several widths, in both colour
// schemes. With -screenshots it writes pictures to look at.
func TestPictures(t *testing.T) {
	b := browse(t)
	for name, l := range recorded(t) {
		file := save(t, name, write(t, HTML, l, meta))
		for _, width := range []int{360, 800, 1280, 1920} {
			for _, scheme := range []string{"light", "dark"} {
				b.size(width, 900)
				b.scheme(scheme)
				b.open(file)
				var wide int
				b.eval("document.documentElement.scrollWidth", &wide)
				require.LessOrEqual(t, wide, width, "%s needs no scrolling to the side at %d", name, width)
				b.shoot(fmt.Sprintf("%s-%d-%s", name, width, scheme))
			}
		}
	}
}
