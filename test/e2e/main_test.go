//go:build e2e

package e2e_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// The programs that TestMain built. Set once, before any test runs.
var built struct {
	dir  string // of this run, on a real disk
	bin  string // naupegos, as built by make build
	kill string // naupegos with kill points, for crash tests
}

// slower is the factor for all time limits on this host: 1 to 3.
var slower time.Duration

// atOnce returns the number of parallel tests to run at once, because a small cluster mostly waits, and the time that a program takes to start. If
// that is long, so is all work of kubelets and runtimes, and clusters that slow each other down fail their probes.
func atOnce() (n int, start time.Duration, err error) {
	if start, err = testkit.ProgramStart(); err != nil {
		return 0, 0, err
	}
	switch {
	case start < 2*time.Millisecond:
		return 3, start, nil
	case start < 3500*time.Microsecond:
		return 2, start, nil
	}
	return 1, start, nil
}

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		fmt.Println("FAIL: the end-to-end tests make machines on this host: run them as root")
		os.Exit(1)
	}
	code, err := runAll(m)
	if err != nil {
		fmt.Println("FAIL:", err)
		code = 1
	}
	os.Exit(code)
}

func runAll(m *testing.M) (code int, err error) {
	if built.dir, err = os.MkdirTemp("/var/tmp", "naupegos-e2e-"); err != nil {
		return 1, err
	}
	defer func() {
		if e := os.RemoveAll(built.dir); err == nil {
			err = e
		}
	}()
	if err := build(); err != nil {
		return 1, err
	}
	n, start, err := atOnce()
	if err != nil {
		return 1, err
	}
	slower = time.Duration(4 - n)
	fmt.Printf("a program starts in %v here: tests that may run side by side do so %d at a time\n", start.Round(10*time.Microsecond), n)
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil { // unless the command line sets it
		return 1, err
	}
	return m.Run(), nil
}

// builtEnv names the directory of the built programs, for a test that runs in another process.
const builtEnv = "NAUPEGOS_TEST_BUILT"

// build builds the programs, each with the agent next to it, where naupegos looks for it.
func build() error {
	built.bin = filepath.Join(built.dir, "bin", "naupegos")
	built.kill = filepath.Join(built.dir, "kill", "naupegos")
	if dir := os.Getenv(builtEnv); dir != "" {
		built.bin, built.kill = filepath.Join(dir, "bin", "naupegos"), filepath.Join(dir, "kill", "naupegos")
		return nil
	}
	for _, p := range []string{built.bin, built.kill} {
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
	}
	agent := filepath.Join(filepath.Dir(built.bin), "naupegos-agent")
	for _, b := range []struct{ out, pkg, tags string }{
		{built.bin, "naupegos", ""}, {built.kill, "naupegos", "killpoints"}, {agent, "naupegos-agent", ""},
	} {
		if err := testkit.Program(b.out, "cmd/"+b.pkg, b.tags); err != nil {
			return err
		}
	}
	return os.Link(agent, filepath.Join(filepath.Dir(built.kill), "naupegos-agent"))
}
