//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package rescue

import (
	"os"

	"golang.org/x/sys/unix"
)

type terminalSettings = unix.Termios

func settings(f *os.File) (*terminalSettings, error) {
	return unix.IoctlGetTermios(int(f.Fd()), getTermios)
}

func restore(f *os.File, s *terminalSettings) error {
	return unix.IoctlSetTermios(int(f.Fd()), setTermios, s)
}
