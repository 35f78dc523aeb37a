package bed

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// Service is one of the bed's services. Its processes share a session of their own.
type Service struct {
	Name string

	b     *Bed
	args  []string                            // the command line
	env   []string                            // added to the bed's own environment
	ports []string                            // address:port pairs that it listens on; they must be free before the start
	ready func(context.Context) (bool, error) // reports, without waiting, whether the service is ready
	needs []string                            // services that have to be ready before it starts
	fresh bool                                // truncate its log at each start
}

// maxLog is the size at which the next start rotates a log.
const maxLog = 32 << 20

// patience is how long a service may take to stop before it is killed.
const patience = 15 * time.Second

// Running reports whether the service's leader runs.
func (s *Service) Running() bool {
	p, err := readProcess(s.b.record(s.Name))
	return err == nil && p.alive()
}

// LogFile is the path of the service's log. It covers the time since the state directory was created or, if the log is truncated, since the last
// start.
func (s *Service) LogFile() string { return filepath.Join(s.b.LogDir(), s.Name+".log") }

// Start starts the service if it does not run, and waits until it is ready or ctx ends.
func (s *Service) Start(ctx context.Context) error {
	if err := s.launch(ctx); err != nil {
		return err
	}
	return s.wait(ctx)
}

// launch starts the service if it does not run.
func (s *Service) launch(ctx context.Context) error {
	old, err := readProcess(s.b.record(s.Name))
	if err != nil {
		return err
	}
	if old.alive() {
		return nil
	}
	if err := old.stop(ctx, 0); err != nil { // workers of a leader that was killed
		return fail.Wrap(fail.Internal, err, "end what is left of %s", s.Name)
	}
	for _, p := range s.ports {
		if err := checkFree(p); err != nil {
			return err
		}
	}
	if info, err := os.Stat(s.LogFile()); err == nil && (s.fresh || info.Size() > maxLog) {
		if err := os.Rename(s.LogFile(), s.LogFile()+".old"); err != nil {
			return err
		}
	}
	log, err := os.OpenFile(s.LogFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.args[0], s.args[1:]...) // not bound to ctx: it outlives this program
	cmd.Env = append(s.b.environment(), s.env...)
	cmd.Dir = s.b.state()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fail.Wrap(fail.Internal, err, "start %s", s.Name)
	}
	go func() { _ = cmd.Wait() }() // reaps the process; alive looks in /proc
	p, err := describe(cmd.Process.Pid)
	if err != nil {
		return s.died(err)
	}
	return writeProcess(s.b.record(s.Name), p)
}

// wait returns when the service is ready, and fails as soon as its process ends.
func (s *Service) wait(ctx context.Context) error {
	var last error
	err := tool.Until(ctx, 100*time.Millisecond, func() (bool, error) {
		if !s.Running() {
			return false, s.died(nil)
		}
		ok, err := s.ready(ctx)
		if err != nil {
			last = err
		}
		return ok && err == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return fail.Wrap(fail.NotReady, errors.Join(err, last), "wait until %s serves; its last words: %s", s.Name, lastWords(s.LogFile())).Do("read %s", s.LogFile())
	}
	return err
}

// died returns the error for a service that ended by itself, with its last log lines.
func (s *Service) died(cause error) error {
	return fail.Wrap(fail.Internal, cause, "%s ended by itself; its last words: %s", s.Name, lastWords(s.LogFile())).Do("read %s", s.LogFile())
}

// Stop stops the service and all its processes, and kills them after a time.
func (s *Service) Stop(ctx context.Context) error {
	file := s.b.record(s.Name)
	p, err := readProcess(file)
	if err != nil {
		return err
	}
	if err := p.stop(ctx, patience); err != nil {
		return fail.Wrap(fail.NotReady, err, "stop %s", s.Name)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// lastWords returns the last non-empty lines of a log.
func lastWords(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	var said []string
	for line := range bytes.Lines(data[max(0, len(data)-8<<10):]) {
		if l := strings.TrimSpace(string(line)); l != "" && l != "\x1b[00m" {
			said = append(said, l)
		}
	}
	return strings.Join(said[max(0, len(said)-4):], " | ")
}

// environment is the environment of every service. It takes only the variables named here from the caller.
func (b *Bed) environment() []string {
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "PYTHONWARNINGS=ignore", "PYTHONPATH=" + b.plugins(),
		"HOME=" + filepath.Join(b.state(), "home"), "TMPDIR=" + filepath.Join(b.state(), "tmp"),
	}
}
