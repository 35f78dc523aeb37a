package adopt

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestFilesScript runs the script: a dangling link is a missing file, and a file that changes while tar reads it fails nothing. Other errors of tar do.
func TestFilesScript(t *testing.T) {
	dir, real := t.TempDir(), testkit.Value(exec.LookPath("tar"))(t)
	for name, text := range map[string]string{"a.yaml": "a", "with blank.yaml": "b", "target": "c"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	testkit.Must(t, os.Symlink("target", filepath.Join(dir, "link.yaml")))
	testkit.Must(t, os.Symlink("/nowhere/ca.key", filepath.Join(dir, "dangling.yaml")))
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "directory.yaml"), 0o700))
	testkit.Must(t, os.Symlink("/nowhere", filepath.Join(dir, "directory.yaml", "dangling")))
	bin := t.TempDir()
	for status, fails := range map[string]bool{"0": false, "1": false, "2": true} {
		testkit.Must(t, os.WriteFile(filepath.Join(bin, "tar"), []byte("#!/bin/sh\n"+real+" \"$@\" || exit\nexit "+status+"\n"), 0o700))
		cmd := exec.Command("sh", "-c", filesScript(strings.TrimPrefix(dir, "/")+"/*.yaml nowhere/at-all"))
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		var said bytes.Buffer
		cmd.Stderr = &said
		archive, err := cmd.Output()
		if (err != nil) != fails {
			t.Fatalf("tar ends with %s: %v: %s", status, err, &said)
		}
		var names []string
		for r := tar.NewReader(bytes.NewReader(archive)); ; {
			head, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			testkit.Must(t, err)
			names = append(names, filepath.Base(head.Name))
		}
		slices.Sort(names)
		if want := []string{"a.yaml", "link.yaml", "with blank.yaml"}; !slices.Equal(names, want) {
			t.Errorf("read %q, want %q", names, want)
		}
	}
}
