// Package hack_test holds the tests of scripts.
package hack_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestScriptsParse: bash can parse every script. Most scripts run only during set-up or after a failure.
func TestScriptsParse(t *testing.T) {
	scripts := []string{"../.ci/run"}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && !strings.Contains(e.Name(), ".") {
			scripts = append(scripts, e.Name())
		}
	}
	if len(scripts) < 4 {
		t.Fatalf("only %q were found: this test looks in the wrong place", scripts)
	}
	for _, script := range scripts {
		if out, err := exec.Command("bash", "-n", script).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, out)
		}
	}
}
