package files

import (
	"os"
	"path/filepath"
)

// ProcSys is where the kernel shows its settings.
const ProcSys = "/proc/sys"

// Set writes a value into a file by which the kernel is told something, as a setting's or a cgroup's.
func Set(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
}
