package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestInitEnds: a form that the user does not complete writes no document.
func TestInitEnds(t *testing.T) {
	const enter, ctrlC, ctrlD = "\r", "\x03", "\x04"
	signal := func(s syscall.Signal) func(*exec.Cmd, *os.File) error {
		return func(c *exec.Cmd, _ *os.File) error { return c.Process.Signal(s) }
	}
	types := func(keys string) func(*exec.Cmd, *os.File) error {
		return func(_ *exec.Cmd, user *os.File) error { _, err := user.WriteString(keys); return err }
	}
	for _, x := range []struct {
		name string
		act  func(*exec.Cmd, *os.File) error
		code int
	}{
		{"SIGTERM", signal(syscall.SIGTERM), 130},
		{"SIGINT", signal(syscall.SIGINT), 130},
		{"SIGHUP", signal(syscall.SIGHUP), 130},
		{"Ctrl-C", types(ctrlC), 130},
		{"Ctrl-D", types(ctrlD), 130},
		{"an answer and Ctrl-D", types(enter + ctrlD), 130},
	} {
		for _, term := range []string{"xterm", "dumb"} {
			t.Run(x.name+" in "+term, func(t *testing.T) {
				blocking, program := testkit.Terminal(t)
				fd := testkit.Value(syscall.Dup(int(blocking.Fd())))(t)
				syscall.CloseOnExec(fd) // else the command holds the other end of its own terminal
				testkit.Must(t, syscall.SetNonblock(fd, true))
				user := os.NewFile(uintptr(fd), "terminal") // a close ends a read
				defer user.Close()
				testkit.Must(t, blocking.Close())
				out := filepath.Join(t.TempDir(), "cluster.yaml")
				file := testkit.Value(os.Create(out))(t)
				defer file.Close()
				c := exec.Command("naupegos", "init", "--interactive")
				c.Env = append(os.Environ(), "TERM="+term, "XDG_STATE_HOME="+t.TempDir())
				c.Stdin, c.Stdout, c.Stderr = program, file, program
				c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
				testkit.Must(t, c.Start())
				program.Close()
				said := &testkit.Buffer{}
				go func() {
					b := make([]byte, 4096)
					for {
						n, err := user.Read(b)
						_, _ = said.Write(b[:n])
						if err != nil {
							return
						}
					}
				}()
				testkit.Until(t, time.Minute, 20*time.Millisecond, testkit.That("the first question", func() bool { return strings.Contains(said.String(), "Name of the cluster") }))
				testkit.Must(t, x.act(c, user))
				_ = c.Wait()
				document := testkit.Value(os.ReadFile(out))(t)
				switch code := c.ProcessState.ExitCode(); {
				case code != x.code:
					t.Errorf("exit status %d, %s, said %q", code, c.ProcessState, said.String())
				case len(document) != 0:
					t.Errorf("wrote %q", document)
				}
			})
		}
	}
}
