package ledger

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kplan-dev/kplan/runner"
)

const (
	// filesKept is how many runs of all plans of a folder are kept in files.
	filesKept = 50
	// filesRead is how many runs are looked at to find how each step was last done.
	filesRead = 10
	// runFile is how the file of a run's events ends.
	runFile = ".jsonl"
	keyFile = "key"
)

// Folder keeps the runs of the plans beside it in files: one for each run, with an
// event on each line.
type Folder string

// FolderOf is the folder of a plan that was read from the folder dir.
func FolderOf(dir string) Folder { return Folder(filepath.Join(dir, ".kplan")) }

func (f Folder) runs() string { return filepath.Join(string(f), "runs") }

// make makes the folder, which version control passes over.
func (f Folder) make() error {
	if err := os.MkdirAll(f.runs(), 0o700); err != nil {
		return err
	}
	ignore := filepath.Join(string(f), ".gitignore")
	if _, err := os.Lstat(ignore); err == nil {
		return nil
	}
	return os.WriteFile(ignore, []byte("*\n"), 0o600)
}

// Key returns the key of the plans' digests, nil if there is none.
func (f Folder) Key() Key {
	b, err := os.ReadFile(filepath.Join(string(f), keyFile))
	if err != nil || len(b) != keySize {
		return nil
	}
	return b
}

// SetKey keeps a key.
func (f Folder) SetKey(k Key) error {
	if err := f.make(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(string(f), keyFile), k, 0o600)
}

// Begin makes the file of a run, and removes the oldest ones.
func (f Folder) Begin(run string) (*Journal, error) {
	if err := f.make(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(f.Path(run), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if runs, err := f.names(); err == nil {
		for _, old := range runs[min(len(runs), filesKept):] {
			_ = os.Remove(f.Path(old)) // it takes little room
		}
	}
	return newJournal(file), nil
}

// Path is that of the file of a run.
func (f Folder) Path(run string) string { return filepath.Join(f.runs(), run+runFile) }

// names are the runs, newest first.
func (f Folder) names() ([]string, error) {
	entries, err := os.ReadDir(f.runs())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var runs []string
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), runFile); is && isRun.MatchString(name) {
			runs = append(runs, name)
		}
	}
	slices.SortFunc(runs, func(a, b string) int { return cmp.Compare(b, a) })
	return runs, err
}

// List returns the runs of a plan, newest first; of all plans for "". Files that
// cannot be read are passed over, and told of in the error.
func (f Folder) List(plan string) ([]Summary, error) {
	runs, err := f.names()
	errs := []error{err}
	var out []Summary
	for _, run := range runs {
		s, err := f.summary(run)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if plan == "" || s.Plan == plan {
			out = append(out, s)
		}
	}
	return out, errors.Join(errs...)
}

// summary reads what became of a run: of its events only the first and the last are
// looked at, which is much quicker.
func (f Folder) summary(run string) (Summary, error) {
	first, last, err := ends(f.Path(run))
	if err != nil {
		return Summary{}, err
	}
	s := Summary{
		Run: first.Run, Plan: first.Plan, By: first.By, Program: first.Program, On: first.Message,
		Started: first.Time, Ended: last.Time, State: runner.StateRunning, Counts: last.Counts, Seq: last.Seq,
	}
	if last.Type == runner.TypeDone {
		s.State, s.Error = last.State, last.Error
		return s, nil
	}
	events, err := ReadEvents(f.Path(run))
	if err != nil {
		return Summary{}, err
	}
	return Fold(events, nil).Summary, nil
}

// ends reads the first and the last event of a file.
func ends(path string) (first, last runner.Event, err error) {
	file, err := os.Open(path)
	if err != nil {
		return first, last, err
	}
	defer file.Close()
	line, err := bufio.NewReader(file).ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &first)
	}
	if err != nil || first.Type != runner.TypePlan {
		return first, last, fmt.Errorf("%s has no events of a run", path)
	}
	const most = 4 << 10 // a last event is short
	if info, err := file.Stat(); err == nil && info.Size() > most {
		_, _ = file.Seek(-most, 2)
	} else {
		_, _ = file.Seek(0, 0)
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		var e runner.Event
		if json.Unmarshal(lines.Bytes(), &e) == nil && e.Seq > 0 {
			last = e
		}
	}
	return first, last, nil
}

// Get returns the record of a run.
func (f Folder) Get(run string) (*Record, error) {
	events, err := ReadEvents(f.Path(run))
	if err != nil {
		return nil, err
	}
	return Fold(events, nil), nil
}

// Latest returns the record of the newest run of a plan on the clusters that on
// says, with what the runs before it did; nil when there is none.
func (f Folder) Latest(plan, on string) (*Record, error) {
	runs, err := f.names()
	if err != nil {
		return nil, err
	}
	var found [][]runner.Event
	for _, run := range runs {
		if first, _, err := ends(f.Path(run)); err != nil || first.Plan != plan || first.Message != on {
			continue
		}
		events, err := ReadEvents(f.Path(run))
		if err != nil {
			continue // it was never written to
		}
		if found = append(found, events); len(found) == filesRead {
			break
		}
	}
	var r *Record
	for _, events := range slices.Backward(found) {
		r = Fold(events, r)
	}
	return r, nil
}
