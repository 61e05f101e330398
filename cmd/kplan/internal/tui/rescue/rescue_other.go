//go:build !(linux || darwin || dragonfly || freebsd || netbsd || openbsd)

package rescue

import (
	"errors"
	"os"
)

// terminalSettings are not known of other systems' terminals.
type terminalSettings struct{}

func settings(*os.File) (*terminalSettings, error) { return nil, errors.ErrUnsupported }
func restore(*os.File, *terminalSettings) error    { return errors.ErrUnsupported }
