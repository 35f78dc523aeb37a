package files

import (
	"os"
	"path/filepath"
)

// ProcSys is the directory of the kernel's settings.
const ProcSys = "/proc/sys"

// Set writes a value into one of the kernel's control files, such as a setting or a cgroup file.
func Set(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
}
