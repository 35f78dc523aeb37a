package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// changedConfig differs from config in every kind of item.
func changedConfig() machine.Config {
	c := config()
	c.Files[0].Content = []byte("two")
	c.Files[1].Path = "/etc/app/third.conf" // other.conf is removed
	c.Units[1].Content += "# two\n"
	c.Units[2].Name = "lb2.service" // lb.service is removed
	c.Directories = append(c.Directories, machine.Directory{Path: "/etc/more", Mode: 0o700})
	return c
}

// checkConverged checks that the host is as after an undisturbed run, and that no unit runs with old content.
func checkConverged(t *testing.T, f *fakeHost, want string) {
	t.Helper()
	if got := f.tree(t); got != want {
		t.Errorf("the host differs from one that was left in peace:\n%s\nwant:\n%s", got, want)
	}
	s := f.load()
	for _, u := range changedConfig().Units {
		have := s.Units[u.Name]
		if have.Active != "active" {
			t.Errorf("%s is %s", u.Name, have.Active)
		}
		for _, w := range u.Watches {
			if have.Ran[w] != f.content(w) {
				t.Errorf("%s runs with an old %s: %q", u.Name, w, have.Ran[w])
			}
		}
		if def := f.content(machine.UnitPath(u.Name)); have.Def != def {
			t.Errorf("%s was started by an old unit file: %q", u.Name, have.Def)
		}
	}
	if s.Units["lb.service"].Active == "active" {
		t.Error("lb.service still runs")
	}
}

// left returns the file tree after an undisturbed run.
func left(t *testing.T) string {
	f := applied(t)
	f.apply(t, changedConfig())
	tree := f.tree(t)
	checkConverged(t, f, tree)
	return strings.ReplaceAll(tree, f.root, "")
}

// TestNextRunFinishes makes each command that the agent runs fail in turn, and cancels the run there.
func TestNextRunFinishes(t *testing.T) {
	want := left(t)
	for n := 1; ; n++ {
		f := applied(t)
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		f.fail = func([]string) error {
			if calls++; calls >= n {
				cancel()
				return errors.New("killed")
			}
			return nil
		}
		_, err := f.agent().Apply(ctx, changedConfig(), false)
		cancel()
		f.fail = nil
		if err == nil {
			if n < 5 {
				t.Fatalf("only %d commands were run", n)
			}
			return
		}
		f.apply(t, changedConfig())
		checkConverged(t, f, want)
		if again := f.apply(t, changedConfig()); len(again.Changes) > 0 {
			t.Errorf("cut at command %d: the run after next changes %+v", n, again.Changes)
		}
	}
}

// TestSIGKILL kills the agent process at each command that it runs in turn, and shortly after it.
func TestSIGKILL(t *testing.T) {
	if root := os.Getenv("NAUPEGOS_KILL_ROOT"); root != "" {
		toBeKilled(t, root)
		return
	}
	want := left(t)
	r := testkit.Rand(t)
	for i := 2; ; i++ {
		n, after := i/2, i%2 == 1
		f := applied(t)
		cmd := exec.Command(os.Args[0], "-test.run=^TestSIGKILL$")
		cmd.Env = append(os.Environ(), "NAUPEGOS_KILL_ROOT="+f.root, fmt.Sprint("NAUPEGOS_KILL_AT=", n))
		goOn := testkit.Value(cmd.StdinPipe())(t)
		out := bufio.NewScanner(testkit.Value(cmd.StdoutPipe())(t))
		testkit.Must(t, cmd.Start())
		if out.Scan(); out.Text() != atCommand {
			testkit.Must(t, cmd.Wait())
			if n < 5 {
				t.Fatalf("only %d commands were run", n-1)
			}
			return
		}
		if after {
			testkit.Must(t, goOn.Close())
			time.Sleep(time.Duration(r.IntN(2000)) * time.Microsecond)
		}
		_ = cmd.Process.Kill() // where it went on, it may have ended
		if err := cmd.Wait(); err == nil && !after {
			t.Errorf("the agent outlived its kill at command %d", n)
		}
		f.apply(t, changedConfig())
		checkConverged(t, f, want)
	}
}

const atCommand = "at the command"

// toBeKilled applies, and pauses at command NAUPEGOS_KILL_AT until standard input is closed.
func toBeKilled(t *testing.T, root string) {
	at := testkit.Value(strconv.Atoi(os.Getenv("NAUPEGOS_KILL_AT")))(t)
	f := &fakeHost{root: root}
	f.fail = func([]string) error {
		if at--; at != 0 {
			return nil
		}
		fmt.Println(atCommand)
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}
	_, err := f.agent().Apply(t.Context(), changedConfig(), false)
	testkit.Must(t, err)
}
