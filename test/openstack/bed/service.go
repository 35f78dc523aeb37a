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

// Service is one of the bed's services. Its processes are a session of their own.
type Service struct {
	Name string

	b     *Bed
	args  []string                            // what is run
	env   []string                            // beside the bed's own environment
	ports []string                            // address:port that it listens on; nobody else may
	ready func(context.Context) (bool, error) // whether it serves, without waiting
	needs []string                            // services that have to be ready before it starts
	fresh bool                                // its log begins again at each start
}

// maxLog is the size from which on a log is put aside at the next start.
const maxLog = 32 << 20

// patience is how long a service may take to end by itself before it is killed.
const patience = 15 * time.Second

// Running reports whether the service's leading process lives.
func (s *Service) Running() bool {
	p, err := readProcess(s.b.record(s.Name))
	return err == nil && p.alive()
}

// LogFile holds what the service has said since the state directory was made, or, where its log begins again, since it was started.
func (s *Service) LogFile() string { return filepath.Join(s.b.LogDir(), s.Name+".log") }

// Start starts the service if it does not run, and waits until it serves or ctx ends.
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
	if err := old.stop(ctx, 0); err != nil { // workers that a killed leader has left
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
	go func() { _ = cmd.Wait() }() // its end is seen in /proc; this only buries it
	p, err := describe(cmd.Process.Pid)
	if err != nil {
		return s.died(err)
	}
	return writeProcess(s.b.record(s.Name), p)
}

// wait returns when the service serves. That its process ends meanwhile is an error at once.
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

// died makes the error of a service that ended by itself, with the last it said.
func (s *Service) died(cause error) error {
	return fail.Wrap(fail.Internal, cause, "%s ended by itself; its last words: %s", s.Name, lastWords(s.LogFile())).Do("read %s", s.LogFile())
}

// Stop ends the service and all its processes; one that does not end by itself is killed.
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

// lastWords returns the last lines of a log that say something.
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

// environment is what every service sees: nothing of the caller's but what is named here.
func (b *Bed) environment() []string {
	return []string{
		"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "PYTHONWARNINGS=ignore", "PYTHONPATH=" + b.plugins(),
		"HOME=" + filepath.Join(b.state(), "home"), "TMPDIR=" + filepath.Join(b.state(), "tmp"),
	}
}
