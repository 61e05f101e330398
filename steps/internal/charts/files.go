package charts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"helm.sh/helm/v3/pkg/ignore"
)

// Files returns the files of a local chart that Helm loads: of a folder all that its
// .helmignore does not leave out, those that links lead to included, and that file
// itself. Folders of version control are passed over.
func Files(chart string) ([]string, error) {
	w := files{rules: ignore.Empty()}
	name := filepath.Join(chart, ignore.HelmIgnore)
	rules, err := ignore.ParseFile(name)
	switch {
	case err == nil:
		w.rules, w.all = rules, []string{name}
	case !errors.Is(err, fs.ErrNotExist) && !isFile(chart):
		return nil, err
	}
	w.rules.AddDefaults()
	err = w.walk(chart, "", 0)
	return w.all, err
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// files gathers the files of a chart.
type files struct {
	rules *ignore.Rules
	all   []string
}

// walk adds what is at a path; name is that below the chart, as rules have it.
func (w *files) walk(file, name string, depth int) error {
	const deepest = 50 // a link may lead back up
	info, err := os.Stat(file)
	switch {
	case err != nil && w.leftOut(file, name): // such as a link to nowhere
		return nil
	case err != nil:
		return err
	case name == ignore.HelmIgnore, name != "" && w.rules.Ignore(name, info):
		return nil
	case info.Mode().IsRegular():
		w.all = append(w.all, file)
		return nil
	case !info.IsDir() || filepath.Base(file) == ".git":
		return nil
	case depth > deepest:
		return &fs.PathError{Op: "read", Path: file, Err: fmt.Errorf("folders are more than %d deep", deepest)}
	}
	entries, err := os.ReadDir(file)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := w.walk(filepath.Join(file, e.Name()), path.Join(name, e.Name()), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leftOut reports whether rules leave out what cannot be followed.
func (w *files) leftOut(file, name string) bool {
	info, err := os.Lstat(file)
	return err == nil && name != "" && w.rules.Ignore(name, info)
}
