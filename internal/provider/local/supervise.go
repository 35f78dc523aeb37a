package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local/files"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/provider/local/shared"
	"github.com/naupegos/naupegos/internal/tool"
)

// lockTimeout bounds the wait for an earlier supervisor of the machine, which may still shut it down: on a busy host that takes more than 20 seconds.
const lockTimeout = 90 * time.Second

// Supervise is a machine's supervisor; dir is the machine's directory. It takes the machine's lock, enters the machine's
// cgroups, mounts the disk in a mount name space of its own (so that the mount can't outlive the supervisor), boots the machine with
// systemd-nspawn and puts its network link on the bridge. It boots the machine again after a reboot, bounds its console
// log, and returns when the machine is off. When ctx ends, it shuts the machine down cleanly.
func Supervise(ctx context.Context, dir string) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	r, err := readRecord(dir)
	if err != nil {
		return err
	}
	lockCtx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	release, err := files.Lock(lockCtx, lockPath(dir))
	if err != nil {
		return err
	}
	defer release()
	log, err := openConsole(consoleFile(dir), consoleLimit)
	if err != nil {
		return err
	}
	s := &supervision{dir: dir, record: r, log: log,
		n: names{root: filepath.Dir(filepath.Dir(filepath.Dir(dir))), cluster: r.Cluster, short: shortID(r.Cluster)}}
	if err := s.enter(lockCtx); err != nil {
		return err
	}
	me, err := process.Self()
	if err != nil {
		return err
	}
	if err := files.WriteVolatileJSON(runFile(dir), me); err != nil {
		return err
	}
	err = s.onOwnThread(ctx)
	return errors.Join(err, files.IgnoreGone(os.Remove(runFile(dir))))
}

// supervision is one machine under its supervisor.
type supervision struct {
	dir    string
	record record
	n      names
	log    *console
	cgroup *os.File // the group for systemd-nspawn on a cgroup v2 host; else nil
}

// enter moves this process into the machine's cgroups and raises the host's settings, under the host's lock. A command that restores the
// settings checks under the same lock that the cgroups are empty: a running machine keeps its settings when other clusters are removed.
func (s *supervision) enter(ctx context.Context) error {
	release, err := shared.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s.cgroup, err = process.EnterCgroups(s.n.cgroup(s.record.Name)); err != nil {
		return err
	}
	return shared.RaiseSettings()
}

// onOwnThread runs the machine from a thread that gets its own mount name space and ends with the machine.
func (s *supervision) onOwnThread(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread must not be used again
		done <- s.run(ctx)
	}()
	return <-done
}

func (s *supervision) run(ctx context.Context) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("make a mount name space: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := hideRunFiles(); err != nil {
		return err
	}
	if err := mountOverlay(s.dir, s.record.Lower); err != nil {
		return err
	}
	for fast := 0; ; {
		began := time.Now()
		reboot, err := s.boot(ctx)
		if err != nil || !reboot || ctx.Err() != nil {
			return err
		}
		if fast++; time.Since(began) > time.Minute {
			fast = 0
		}
		if fast >= 5 {
			return fail.New(fail.Internal, "the machine rebooted %d times within a minute each", fast).At(s.record.Name)
		}
	}
}

// hideRunFiles gives systemd-nspawn a private directory for its lock files, because it leaves them behind when it is killed.
func hideRunFiles() error {
	const dir = "/run/systemd/nspawn"
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("naupegos", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0755"); err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	return nil
}

// exitReboot is the exit status with which systemd-nspawn asks to be started again, if it runs with --keep-unit.
const exitReboot = 133

// boot runs the machine once, from power-on to power-off or reboot.
func (s *supervision) boot(ctx context.Context) (reboot bool, err error) {
	cmd := s.nspawn()
	if err := cmd.Start(); err != nil {
		return false, fmt.Errorf("start systemd-nspawn: %w", err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	if err := s.connect(ctx, exited); err != nil {
		return false, errors.Join(err, cmd.Process.Kill(), <-exited)
	}
	select {
	case err = <-exited:
	case <-ctx.Done():
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return false, err
		}
		err = <-exited // the command that asked for the stop kills the cgroup if this takes too long
	}
	var status *exec.ExitError
	if errors.As(err, &status) && status.ExitCode() == exitReboot {
		return true, nil
	}
	return false, err
}

// connect waits for the machine's link, which systemd-nspawn makes before the machine's init runs, and puts it on the bridge.
func (s *supervision) connect(ctx context.Context, exited chan error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return tool.Until(ctx, 5*time.Millisecond, func() (bool, error) {
		select {
		case err := <-exited:
			exited <- err
			return true, nil // boot reports why
		default:
		}
		err := hostnet.AttachLink(s.record.Link, s.record.Bridge)
		if hostnet.NotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}
