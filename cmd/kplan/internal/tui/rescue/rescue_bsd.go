//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package rescue

import "golang.org/x/sys/unix"

const getTermios, setTermios = unix.TIOCGETA, unix.TIOCSETA

// rename does nothing: the process has its name from its arguments.
func rename() {}
