package runner

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// haproxy is the single HAProxy process that replaces all of Octavia's amphorae. It runs while there is at least one load balancer.
type haproxy struct {
	dir     string
	applied string // the running configuration
	cmd     *exec.Cmd
	exited  chan error
	note    func(process) error // records the process for the next runner after a crash
}

func (h *haproxy) socket() string { return filepath.Join(h.dir, "haproxy.sock") }
func (h *haproxy) config() string { return filepath.Join(h.dir, "haproxy.cfg") }
func (h *haproxy) log() string    { return filepath.Join(h.dir, "haproxy.log") }

func (h *haproxy) running() bool {
	if h.cmd == nil {
		return false
	}
	select {
	case err := <-h.exited:
		h.exited <- err
		return false
	default:
		return true
	}
}

// apply checks a configuration and starts or reloads HAProxy with it. A reload drops no connections. An empty configuration stops HAProxy.
// changed reports whether apply did anything.
func (h *haproxy) apply(ctx context.Context, text string) (changed bool, err error) {
	if text == "" {
		if h.cmd == nil {
			return false, nil
		}
		return true, h.stop()
	}
	if text == h.applied && h.running() {
		return false, nil
	}
	next := h.config() + ".next"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return false, err
	}
	if _, err := tool.Run(ctx, nil, "haproxy", "-c", "-f", next); err != nil {
		return false, fail.Wrap(fail.Invalid, err, "check HAProxy's configuration").At(next)
	}
	if err := os.Rename(next, h.config()); err != nil {
		return false, err
	}
	again := func() error { return nil }
	if h.running() {
		again = func() error { return h.cmd.Process.Signal(syscall.SIGUSR2) }
		err = again()
	} else {
		err = h.start()
	}
	if err != nil {
		return true, err
	}
	if err := h.await(ctx, description(text), again); err != nil {
		return true, err
	}
	h.applied = text
	return true, nil
}

func (h *haproxy) start() error {
	log, err := os.OpenFile(h.log(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	// -W: a master process that keeps the listening sockets over reloads; -db: in the foreground
	h.cmd, h.exited = exec.Command("haproxy", "-W", "-db", "-f", h.config()), make(chan error, 1)
	h.cmd.Stdout, h.cmd.Stderr, h.cmd.Dir = log, log, "/"
	if err := startBound(h.cmd, h.exited); err != nil {
		h.cmd = nil
		return fail.Wrap(fail.Refused, err, "start HAProxy").Do("install haproxy: apt-get install haproxy")
	}
	p, err := processOf(h.cmd.Process.Pid)
	if err != nil {
		return fmt.Errorf("HAProxy ended at once, see %s: %w", h.log(), err)
	}
	return h.note(p)
}

// await waits until HAProxy reports a configuration with this description. A master that is still busy with the last reload can miss the signal
// for the next one, so await sends it again every second.
func (h *haproxy) await(ctx context.Context, want string, again func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	told := time.Now()
	for {
		if time.Since(told) > time.Second {
			if err := again(); err != nil {
				return err
			}
			told = time.Now()
		}
		if !h.running() {
			return fail.New(fail.Internal, "HAProxy ended").At(h.log())
		}
		got, err := h.ask("show info")
		if err == nil && description(got) == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.NotReady, errors.Join(ctx.Err(), err), "wait for HAProxy to take its new configuration").At(h.log())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// description finds the line that identifies a configuration, in the configuration itself or in the output of "show info".
func description(text string) string {
	s := bufio.NewScanner(strings.NewReader(text))
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) == 2 && strings.EqualFold(strings.TrimSuffix(f[0], ":"), "description") {
			return f[1]
		}
	}
	return ""
}

// ask sends a command to HAProxy's control socket and returns the answer.
func (h *haproxy) ask(command string) (string, error) {
	c, err := net.DialTimeout("unix", h.socket(), time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		return "", err
	}
	data, err := io.ReadAll(c)
	return string(data), err
}

func (h *haproxy) stop() error {
	h.applied = ""
	if h.running() {
		if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
		select {
		case <-h.exited: //nolint:errcheck // it was stopped on purpose
		case <-time.After(5 * time.Second):
			if err := syscall.Kill(-h.cmd.Process.Pid, syscall.SIGKILL); err != nil {
				return fmt.Errorf("kill HAProxy: %w", err)
			}
			<-h.exited //nolint:errcheck // it was killed on purpose
		}
	}
	h.cmd = nil
	if err := os.Remove(h.socket()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return h.note(process{})
}
