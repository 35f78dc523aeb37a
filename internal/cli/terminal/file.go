package terminal

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// FileOf returns the path of the file that w is redirected to, relative to the working directory if the file is below it, or else other.
func FileOf(w io.Writer, other string) string {
	f, ok := w.(*os.File)
	if !ok {
		return other
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return other
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
	if err != nil {
		return other
	}
	if dir, err := os.Getwd(); err == nil {
		if near, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(near) {
			return near
		}
	}
	return path
}
