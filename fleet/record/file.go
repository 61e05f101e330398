package record

import (
	"os"
	"path/filepath"

	"github.com/kplan-dev/kplan/fleet"
)

// ReadEvents returns the events of a fleet's run from a file: that of a run's folder, or one
// with what --progress json wrote. A last line that was not written to its end is left out.
func ReadEvents(path string) ([]fleet.Event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []fleet.Event
	_, err = read(file, path, func(e fleet.Event) { all = append(all, e) })
	return all, err
}

// Beside is what is known of the run whose events are in a file: its clusters' own events, if
// the file is that of a run's folder.
func Beside(path string) *Run { return &Run{Dir: filepath.Dir(path)} }
