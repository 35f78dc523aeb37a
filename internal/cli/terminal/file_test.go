package terminal

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFileOf(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	f, err := os.Create(filepath.Join(dir, "cluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := FileOf(f, "FILE"); got != "cluster.yaml" {
		t.Errorf("a file here: %q", got)
	}
	t.Chdir("/")
	if got := FileOf(f, "FILE"); !strings.HasSuffix(got, "/cluster.yaml") && !strings.HasSuffix(got, "cluster.yaml") {
		t.Errorf("a file elsewhere: %q", got)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if got := FileOf(null, "FILE"); got != "FILE" {
		t.Errorf("a device: %q", got)
	}
	if got := FileOf(&strings.Builder{}, "FILE"); got != "FILE" {
		t.Errorf("memory: %q", got)
	}
}
