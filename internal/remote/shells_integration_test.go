//go:build integration

package remote

import (
	"os/exec"
	"strings"
	"testing"
)

// TestShells: every login shell passes every argument unchanged.
func TestShells(t *testing.T) {
	d := dialer(t, Options{}, newKey(t))
	hard := []string{
		"plain", "", " ", "it's", `"quoted"`, `back\slash`, `\\two`, `ends with \`, "two\nlines", "ends with newline\n", "\n", "wow!", "!!", `\!`, "$HOME", "`id`", "$(id)", "a;b|c&d", "*", "~", "{a,b}",
		"%s%%", "tab\there", "ü→", `\0041`, `\n`, "#x", "(x)", "<x>", "[a]", "^a^b", "=ls", "-n",
	}
	for _, shell := range []string{"sh", "dash", "bash", "fish", "tcsh"} {
		if _, err := exec.LookPath(shell); err != nil {
			t.Fatalf("%v: hack/setup test installs it", err)
		}
		for _, args := range append([][]string{hard}, each(hard)...) {
			line := d.wrap(Host{}, append([]string{"printf", "[%s]"}, args...))
			cmd := exec.Command(shell, "-c", line)
			var said strings.Builder
			cmd.Stderr = &said
			out, err := cmd.Output()
			if want := beganLine + "[" + strings.Join(args, "][") + "]"; err != nil || string(out) != want {
				t.Errorf("%s passes on %q, want %q: %v %s", shell, out, want, err, &said)
			}
		}
	}
}

// each returns every argument as a list of its own.
func each(args []string) (lists [][]string) {
	for _, a := range args {
		lists = append(lists, []string{a})
	}
	return lists
}
