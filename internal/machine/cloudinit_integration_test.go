//go:build integration

package machine

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestCloudInitSchema: cloud-init itself accepts the rendered user-data.
func TestCloudInitSchema(t *testing.T) {
	if _, err := exec.LookPath("cloud-init"); err != nil {
		t.Fatal("cloud-init is not installed: apt-get install cloud-init")
	}
	for name, o := range userData() {
		data, err := CloudInit(o)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), "cloud-init", "schema", "-c", file).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "Valid") {
			t.Errorf("%s: %v: %s", name, err, out)
		}
	}
}
