package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/provider/local/shared"
	"github.com/naupegos/naupegos/internal/tool"
)

// startMachine starts a machine's supervisor unless it runs, and waits until SSH answers, for at most Timeouts.Boot.
func (p *Provider) startMachine(ctx context.Context, name string, progress plan.Progress) error {
	if err := ctx.Err(); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "boot machine").At(name)
	}
	dir := p.n.machine(name)
	r, err := readRecord(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeouts.Boot)
	defer cancel()
	ended, err := p.startSupervisor(ctx, r, dir)
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "start machine").At(name)
	}
	progress.Status("booting; waiting for SSH on %s", r.ip())
	err = tool.Until(ctx, 50*time.Millisecond, func() (bool, error) {
		if gone, why := ended(); gone {
			return false, fmt.Errorf("the machine ended while booting%s", why)
		}
		return answers(ctx, r.ip()), nil
	})
	if err != nil {
		kind := fail.Internal
		if errors.Is(ctx.Err(), context.Canceled) {
			return fail.Wrap(fail.Interrupted, ctx.Err(), "boot machine").At(name)
		}
		if ctx.Err() != nil {
			kind, err = fail.NotReady, fmt.Errorf("no SSH server answered on %s within %v", r.ip(), p.opts.Timeouts.Boot)
		}
		return fail.Wrap(kind, fmt.Errorf("%w; its console ends: %s", err, consoleTail(dir, 8)), "boot machine").At(name).
			Do("see %s; apply again, or replace the machine", consoleFile(dir)).Enough()
	}
	return nil
}

// startSupervisor makes sure that the supervisor runs. The returned function reports whether it has ended since, and why if known.
func (p *Provider) startSupervisor(ctx context.Context, r record, dir string) (ended func() (bool, string), err error) {
	running, err := settled(ctx, dir)
	if err != nil {
		return nil, err
	}
	if running.Alive() {
		return func() (bool, string) { return !running.Alive(), "" }, p.repairLink(r)
	}
	if err := p.killMachine(ctx, r.Name); err != nil { // removes its remains, if any
		return nil, err
	}
	argv, err := absolute(append(slices.Clip(p.opts.Supervisor), dir)) // Clip: machines start in parallel and share this slice
	if err != nil {
		return nil, err
	}
	if process.HasSystemd() {
		unit := p.n.unit(r.Name)
		if err := startUnit(ctx, unit, "Naupegos machine "+r.Name+" of "+p.opts.ClusterName, argv); err != nil {
			return nil, err
		}
		return func() (bool, string) {
			_, err := tool.Run(ctx, nil, "systemctl", "is-active", "--quiet", unit)
			return err != nil && ctx.Err() == nil, ""
		}, nil
	}
	log, err := os.OpenFile(consoleFile(dir), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	if err := keepDescriptors(); err != nil {
		return nil, err
	}
	cmd := supervisorCommand(argv, dir, log)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	return func() (bool, string) {
		select {
		case err := <-exited:
			exited <- err
			return true, fmt.Sprintf(" (supervisor: %v)", err)
		default:
			return false, ""
		}
	}, nil
}

// startUnit starts a supervisor as a transient unit of the host's systemd. The host's lock prevents other commands from removing the slice in the
// meantime.
func startUnit(ctx context.Context, unit, description string, argv []string) error {
	release, err := shared.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	return process.StartUnit(ctx, unit, description, argv)
}

// repairLink puts a running machine's link back on the bridge, in case the bridge was recreated. A missing link means that the machine is
// still booting: then its supervisor attaches the link.
func (p *Provider) repairLink(r record) error {
	ok, err := hostnet.Attached(r.Link, r.Bridge)
	if err != nil || ok {
		return err
	}
	if err := hostnet.AttachLink(r.Link, r.Bridge); err != nil && !hostnet.NotFound(err) {
		return err
	}
	return nil
}

// answers reports whether the machine's SSH server accepts a connection and sends its greeting.
func answers(ctx context.Context, ip string) bool {
	d := net.Dialer{Timeout: 500 * time.Millisecond}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(ip, "22"))
	if err != nil {
		return false
	}
	defer c.Close()
	if err := c.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
		return false
	}
	var greeting [4]byte
	n, err := c.Read(greeting[:])
	return err == nil && string(greeting[:n]) == "SSH-"
}

// keepDescriptors makes sure that programs started from now on inherit only the descriptors passed to them explicitly. Other descriptors
// inherited from this process's caller (a terminal, a pipe that it reads to the end) would otherwise stay open as long as a machine runs.
func keepDescriptors() error {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep inherited descriptors from machines: %w", err)
	}
	return nil
}

// supervisorCommand returns the command for a host without systemd. It runs in its own session, so that neither the end of the shell
// nor a signal from the terminal reaches it.
func supervisorCommand(argv []string, dir string, console *os.File) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = tool.Env()
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd
}

// absolute makes the first word of argv an absolute path, because a transient unit does not run in our working directory.
func absolute(argv []string) ([]string, error) {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return append([]string{path}, argv[1:]...), nil
}
