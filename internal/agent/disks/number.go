package disks

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// deviceNumber is a device's number as /sys writes it: "8:0".
func deviceNumber(info os.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
}
