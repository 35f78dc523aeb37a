package testkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// note is a test that records its errors.
type note struct {
	testing.TB
	errs []string
}

func (n *note) Errorf(format string, args ...any) {
	n.errs = append(n.errs, fmt.Sprintf(format, args...))
}
func (n *note) Fatalf(format string, args ...any) { n.Errorf(format, args...) }

func TestGolden(t *testing.T) {
	t.Chdir(t.TempDir())
	n := &note{TB: t}
	*update = true
	Golden(n, "dir/a.txt", "one\n")
	*update = false
	Golden(n, "dir/a.txt", []byte("one\n"))
	if data, err := os.ReadFile(filepath.Join("testdata", "dir", "a.txt")); err != nil || string(data) != "one\n" || len(n.errs) > 0 {
		t.Errorf("%q %v %v", data, err, n.errs)
	}
	Golden(n, "dir/a.txt", "two\n")
	if len(n.errs) != 1 || !strings.Contains(n.errs[0], "differs") {
		t.Errorf("a difference is reported as %q", n.errs)
	}
}
