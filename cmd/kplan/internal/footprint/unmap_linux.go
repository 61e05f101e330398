package footprint

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// unmap takes the program's file out of this process's memory. Initialising its
// packages touches most of it, and what runs afterwards touches a third. The kernel
// keeps the file in its cache, and maps anew what is used again.
func unmap() {
	mappings, err := os.ReadFile("/proc/self/smaps")
	self, noName := os.Executable()
	if err != nil || noName != nil {
		return // it is larger, and works
	}
	var from, to uintptr
	for line := range strings.Lines(string(mappings)) {
		fields := strings.Fields(line)
		switch {
		case strings.Contains(fields[0], "-"): // 00400000-0246e000 r-xp 00000000 fe:00 123 /usr/bin/kplan
			from, to = 0, 0
			if strings.HasSuffix(line, " "+self+"\n") && !strings.Contains(fields[1], "w") {
				_, _ = fmt.Sscanf(fields[0], "%x-%x", &from, &to) // the kernel writes nothing else
			}
		case fields[0] == "Anonymous:" && fields[1] == "0" && from < to: // else some of it is no longer the file's
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) // it may stay
		}
	}
}
