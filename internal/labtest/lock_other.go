//go:build !unix

package labtest

import "errors"

// lock is not needed where there are no labs.
func lock(string) (func(), error) { return nil, errors.New("not available on this system") }
