package bundle

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// goTool runs the go command in an environment in which none of the user's settings affects the output.
type goTool struct {
	bin     string
	version string // "go1.26.8"
	env     []string
}

// fixedEnv returns the settings that determine a compilation's output and keep the verification of modules on. They omit debugging
// information, which the recipes' linker flags would drop anyway; the Makefile compiles naupegos with the same setting, so that both share
// the cached standard library.
func fixedEnv() []string {
	return []string{
		"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + runtime.GOARCH, "GOAMD64=v1", "GOARM64=v8.0", "GOWORK=off", "GOTOOLCHAIN=local",
		"GOFLAGS=-mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false", "GOEXPERIMENT=", "GODEBUG=", "GOFIPS140=off",
		"GONOSUMDB=none", "GOINSECURE=none", "GOPRIVATE=none", "GONOPROXY=none",
	}
}

func newGoTool(ctx context.Context, bin string) (*goTool, error) {
	const remedy = "install Go (https://go.dev/dl) and put it in PATH, or bring a bundle from elsewhere: naupegos bundle export there, naupegos bundle import here"
	if bin == "" {
		bin = "go"
		if _, err := exec.LookPath(bin); err != nil {
			bin = "/usr/local/go/bin/go"
		}
	}
	path, err := exec.LookPath(bin)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "find the go command").Do(remedy)
	}
	t := &goTool{bin: path, env: os.Environ()}
	kept := []string{"GOVERSION", "GOPROXY", "GOSUMDB", "GOCACHE", "GOMODCACHE"}
	// Only root can write to the root directory. In a directory of other users, their go.mod or go.work could select the toolchain.
	out, err := t.run(ctx, "/", nil, append([]string{"env"}, kept...)...)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "run the go command").At(path).Do(remedy)
	}
	values := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if len(values) != len(kept) {
		return nil, fail.New(fail.Refused, "go env answers %q", out).At(path).Do(remedy)
	}
	t.version = values[0]
	if values[2] == "off" {
		values[2] = "sum.golang.org"
	}
	t.env = cleanEnv(os.Environ())
	for i, key := range kept[1:] {
		t.env = append(t.env, key+"="+values[i+1])
	}
	t.env = append(append(t.env, "GOENV=off"), fixedEnv()...)
	t.env = append(t.env, spendMemory()...)
	return t, nil
}

// spendMemory returns settings with which compilers and linkers collect garbage less often, as long as all of them at once fit into half of the
// memory. They do not change the output.
func spendMemory() []string {
	var host unix.Sysinfo_t
	if err := unix.Sysinfo(&host); err != nil {
		return nil
	}
	each := uint64(host.Totalram) * uint64(host.Unit) / 2 / uint64(runtime.NumCPU())
	return []string{"GOGC=400", fmt.Sprintf("GOMEMLIMIT=%d", max(each, 1<<30))}
}

// cleanEnv drops every setting of the go command and of cgo. newGoTool adds back the user's proxy, checksum database and caches.
func cleanEnv(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		return strings.HasPrefix(kv, "GO") || strings.HasPrefix(kv, "CGO_")
	})
}

// run executes go in dir and returns its standard output; lines of standard error go to seen as they come.
func (t *goTool) run(ctx context.Context, dir string, seen func(line string), args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, t.bin, args...)
	cmd.Dir, cmd.Env = dir, t.env
	var out bytes.Buffer
	cmd.Stdout = &out
	err := runQuietly(ctx, cmd, seen)
	return out.String(), err
}

// runQuietly runs cmd in its own process group, interrupts the group when ctx ends, and includes the last lines of standard error in the
// error.
func runQuietly(ctx context.Context, cmd *exec.Cmd, seen func(string)) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return fail.Wrap(fail.Internal, err, "run %s", cmd.Path)
	}
	if err := cmd.Start(); err != nil {
		return fail.Wrap(fail.Refused, err, "run %s", cmd.Path)
	}
	last := tail(stderr, seen)
	if err := cmd.Wait(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return explain(err, filepath.Base(cmd.Path), cmd.Args[1:], last)
	}
	return nil
}

const tailLines = 8

func tail(r io.Reader, seen func(string)) []string {
	var last []string
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		if seen != nil {
			seen(s.Text())
		}
		if last = append(last, s.Text()); len(last) > tailLines {
			last = last[1:]
		}
	}
	_, _ = io.Copy(io.Discard, r) // a line too long to keep must not block the command
	return last
}

// explain turns the failure of a command into an error with the right kind and remedy.
func explain(err error, name string, args []string, last []string) error {
	said := strings.Join(last, "\n")
	e := fail.Wrap(fail.Internal, errors.Join(err, errors.New(said)), "run %s %s", name, strings.Join(first(args, 2), " "))
	for _, c := range []struct {
		needle, hint string
		kind         fail.Kind
	}{
		{"no space left on device", "free space there and in the directory of `go env GOCACHE`, then run it again: it continues where it stopped", fail.Refused},
		{"checksum mismatch", "what was downloaded is not what the recipe pins: do not use it, and find out what lies between here and the module proxy", fail.Refused},
		{"SECURITY ERROR", "what was downloaded is not what the recipe pins: do not use it, and find out what lies between here and the module proxy", fail.Refused},
		{"No space left on device", "free space there, then run it again: it continues where it stopped", fail.Refused},
		{"requires go >=", "install a newer Go", fail.Refused},
		{"dial tcp", "check the network and GOPROXY", fail.Unreachable},
		{"i/o timeout", "check the network and GOPROXY", fail.Unreachable},
		{"TLS handshake timeout", "check the network and GOPROXY", fail.Unreachable},
		{"connection refused", "check the network and GOPROXY", fail.Unreachable},
		{"Failed to fetch", "check the network and /etc/apt/sources.list", fail.Unreachable},
		{"Temporary failure resolving", "check the network and /etc/apt/sources.list", fail.Unreachable},
		{"signal: killed", "the kernel may have ended it for want of memory: give --parallel 1 or more memory", fail.Refused},
	} {
		if strings.Contains(said, c.needle) || strings.Contains(err.Error(), c.needle) {
			e.Kind = c.kind
			return e.Do("%s", c.hint)
		}
	}
	return e
}

func first(list []string, n int) []string { return list[:min(n, len(list))] }
