package cli

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// onTerminal runs the command on a terminal that answers no queries. It returns the output, and the time it took.
func onTerminal(t *testing.T, env []string, args ...string) (string, time.Duration) {
	t.Helper()
	user, program := testkit.Terminal(t)
	c := exec.Command("naupegos", args...)
	c.Env = append(os.Environ(), append([]string{"TERM=xterm-256color", "XDG_STATE_HOME=" + t.TempDir()}, env...)...)
	c.Stdin, c.Stdout, c.Stderr = program, program, program
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	began := time.Now()
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	program.Close() // only the command has it now: its exit ends the read
	var said bytes.Buffer
	if _, err := io.Copy(&said, user); err != nil && !errors.Is(err, syscall.EIO) { // EIO: the other end is closed
		t.Fatal(err)
	}
	if err := c.Wait(); err != nil {
		t.Fatalf("%v: %v: %s", args, err, said.String())
	}
	return said.String(), time.Since(began)
}

// TestSilentTerminal: verbs query no terminal, so a silent one costs no time. A busy host gets several attempts, and each may take the command's time
// without a terminal in addition: a wait for an answer would occur in all of them.
func TestSilentTerminal(t *testing.T) {
	const most, attempts = 200 * time.Millisecond, 20
	for _, args := range [][]string{{"version"}, {"--version"}, {"--help"}, {"status"}} {
		best := time.Hour
		for range attempts {
			said, took := onTerminal(t, nil, args...)
			if bytes.ContainsRune([]byte(said), '\x1b') || said == "" {
				t.Fatalf("%v wrote %q to the terminal", args, said)
			}
			began := time.Now()
			if out, err := exec.Command("naupegos", append(args, "--state-dir", t.TempDir())...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if best = min(best, took-time.Since(began)); took < most || best < most {
				break
			}
		}
		if best >= most {
			t.Errorf("%v took %s at best", args, best)
		}
	}
}

// TestColor: terminals get colour unless they or their user can't have it; other outputs get none.
func TestColor(t *testing.T) {
	_, terminal := testkit.Terminal(t)
	for _, c := range []struct {
		term, noColor string
		flag, want    bool
		w             io.Writer
	}{
		{term: "xterm", w: terminal, want: true},
		{term: "dumb", w: terminal},
		{term: "xterm", noColor: "1", w: terminal},
		{term: "xterm", flag: true, w: terminal},
		{term: "xterm", w: &bytes.Buffer{}},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColor)
		if got := (&App{NoColor: c.flag}).Color(c.w); got != c.want {
			t.Errorf("%+v: colour: %t", c, got)
		}
	}
}
