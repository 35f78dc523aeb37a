package front

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// Config describes the front process.
type Config struct {
	Args    []string         // with which this program becomes the front process
	HTTP    *net.TCPListener // the front process serves it
	Leases  string           // a directory that it may write to; empty: none
	Network bool             // it opens sockets for DHCP, TFTP and router advertisements
	Own     any              // Settings.Own of the process
	Files   Opener           // opens files for it
	Log     *slog.Logger
	Stderr  io.Writer
	Drain   time.Duration
}

// Times of restarts.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 10 * time.Second
	steady     = time.Minute      // resets the pause
	starting   = 90 * time.Second // until the process serves: it looks for other DHCP servers first
)

// Supervisor starts the front process, and starts it again when it ends.
type Supervisor struct {
	c        Config
	requests *net.UnixListener
	files    *net.UnixListener
	settings Settings
	pid      atomic.Int64 // 0: none
	serving  atomic.Bool
}

// child is one front process.
type child struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ended chan struct{} // closed when the process has ended
	err   error         // how it ended; valid once ended is closed
}

// kill ends the process at once and waits until it has ended.
func (k *child) kill() {
	_ = k.cmd.Process.Kill() // it may have ended
	<-k.ended
}

// Start opens the sockets for requests of the front process. Run starts the process, once something answers at Listener. From then on no program
// inherits the descriptors that this process's caller left open, such as a pipe with a secret: confinement does not reach open files.
func Start(ctx context.Context, c Config) (*Supervisor, error) {
	if err := unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC); err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) { // before Linux 5.11
		return nil, fail.Wrap(fail.Internal, err, "keep inherited descriptors from the front process")
	}
	s := &Supervisor{c: c}
	own, err := json.Marshal(c.Own)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the settings of the front process")
	}
	name := "@naupegos-front-" + rand.Text()
	s.settings = Settings{Requests: name + "-requests", Files: name + "-files", Network: c.Network, Writes: c.Leases != "", Own: own, User: unprivileged()}
	if s.requests, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.settings.Requests, Net: "unix"}); err == nil {
		s.files, err = net.ListenUnix("unix", &net.UnixAddr{Name: s.settings.Files, Net: "unix"})
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "listen for the front process")
	}
	go giveFiles(context.WithoutCancel(ctx), only{s.files, s}, c.Files, c.Log)
	return s, nil
}

// Close closes the sockets for requests of the front process.
func (s *Supervisor) Close() error {
	err := s.requests.Close()
	if errors.Is(err, net.ErrClosed) { // by the server
		err = nil
	}
	return errors.Join(err, s.files.Close())
}

// Listener accepts connections of the front process and of no other.
func (s *Supervisor) Listener() net.Listener { return only{s.requests, s} }

// unprivileged returns the user for the front process if this process belongs to root.
func unprivileged() *User {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"naupegos-front", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			uid, e1 := strconv.Atoi(u.Uid)
			gid, e2 := strconv.Atoi(u.Gid)
			if e1 == nil && e2 == nil {
				return &User{uid, gid}
			}
		}
	}
	return &User{65534, 65534}
}

// start starts a process and waits until it serves.
func (s *Supervisor) start(ctx context.Context) (*child, error) {
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "start the front process")
	}
	defer out.Close() // read only
	k := &child{ended: make(chan struct{})}
	err = s.launch(k, in)
	if e := in.Close(); err == nil {
		err = e
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "start the front process")
	}
	answers := make(chan started, 1)
	go func() {
		var a started
		if line, err := bufio.NewReader(out).ReadBytes('\n'); err == nil {
			_ = json.Unmarshal(line, &a) // not ready, then
		}
		answers <- a
	}()
	limit := time.NewTimer(starting)
	defer limit.Stop()
	var a started
	select {
	case a = <-answers:
	case <-limit.C:
		a.Error = "it did not serve within " + starting.String()
	case <-ctx.Done():
		a.Error = "interrupted"
	}
	if !a.Ready {
		s.pid.Store(0)
		k.kill()
		if a.Kind != "" {
			return nil, &fail.Error{Kind: fail.Named(a.Kind), What: a.Error}
		}
		return nil, fail.New(fail.Internal, "the front process has ended before it served: %s", a.Error)
	}
	if a.Note != "" {
		s.c.Log.Warn("the front process is not fully confined", "reason", a.Note)
	}
	s.serving.Store(true)
	s.c.Log.Info("machines are served by a process of their own", "pid", k.cmd.Process.Pid)
	return k, nil
}

// launch runs the program with its settings.
func (s *Supervisor) launch(k *child, stdout *os.File) error {
	listener, err := s.c.HTTP.File()
	if err != nil {
		return err
	}
	defer listener.Close() // the process has its own
	k.cmd = exec.Command("/proc/self/exe", s.c.Args...)
	k.cmd.Args[0] = os.Args[0]
	k.cmd.Env, k.cmd.Dir, k.cmd.Stdout, k.cmd.Stderr = environment(), "/", stdout, s.c.Stderr
	k.cmd.ExtraFiles = []*os.File{listener}
	if s.c.Leases != "" {
		dir, err := s.leases()
		if err != nil {
			return err
		}
		defer dir.Close() // as above
		k.cmd.ExtraFiles = append(k.cmd.ExtraFiles, dir)
	}
	stdin, err := k.cmd.StdinPipe()
	if err != nil {
		return err
	}
	k.stdin = stdin
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread has lost capabilities, and ends
		if !s.c.Network {
			if err := clearAmbient(); err != nil {
				started <- err
				return
			}
		}
		started <- k.cmd.Start()
	}()
	if err := <-started; err != nil {
		return err
	}
	s.pid.Store(int64(k.cmd.Process.Pid)) // before it knows where to ask
	go func() {
		k.err = k.cmd.Wait()
		close(k.ended)
	}()
	if err := json.NewEncoder(stdin).Encode(s.settings); err != nil {
		s.pid.Store(0)
		k.kill()
		return err
	}
	return nil
}

// leases opens the directory for DHCP's leases and gives it to the user of the front process.
func (s *Supervisor) leases() (*os.File, error) {
	if err := os.MkdirAll(s.c.Leases, 0o700); err != nil {
		return nil, err
	}
	if u := s.settings.User; u != nil {
		found, err := os.ReadDir(s.c.Leases)
		if err != nil {
			return nil, err
		}
		root, err := os.OpenRoot(s.c.Leases)
		if err != nil {
			return nil, err
		}
		defer root.Close() // nothing is written
		err = root.Chown(".", u.UID, u.GID)
		for _, f := range found {
			err = errors.Join(err, root.Lchown(f.Name(), u.UID, u.GID))
		}
		if err != nil {
			return nil, err
		}
	}
	return os.Open(s.c.Leases)
}

// Run starts the process, which has to succeed the first time, calls ready, and keeps the process running until ctx ends.
func (s *Supervisor) Run(ctx context.Context, ready func() error) error {
	pause, began := firstPause, time.Now()
	k, err := s.start(ctx)
	if ctx.Err() != nil && k == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if err := ready(); err != nil {
		s.stop(k)
		return err
	}
	for {
		if k != nil {
			select {
			case <-ctx.Done():
				s.stop(k)
				return nil
			case <-k.ended:
				s.serving.Store(false)
				s.pid.Store(0)
				if time.Since(began) > steady {
					pause = firstPause
				}
				s.c.Log.Error("the process that serves machines has ended, and is started again", "reason", why(k.err), "after", pause.String())
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		began = time.Now()
		if k, err = s.start(ctx); err != nil {
			s.c.Log.Error("machines are not served", "reason", err.Error())
		}
		pause = min(2*pause, lastPause)
	}
}

func why(err error) string {
	if err == nil {
		return "it ended without an error"
	}
	return err.Error()
}

// stop ends a process after its running requests.
func (s *Supervisor) stop(k *child) {
	_ = k.stdin.Close() // it may have ended
	limit := time.NewTimer(s.c.Drain + 5*time.Second)
	defer limit.Stop()
	select {
	case <-k.ended:
	case <-limit.C:
		s.c.Log.Warn("the process that serves machines does not end, and is killed")
		k.kill()
	}
}

// Health reports whether the front process serves.
func (s *Supervisor) Health(context.Context) map[string]bool {
	return map[string]bool{"serving": s.serving.Load()}
}

// only accepts the front process.
type only struct {
	*net.UnixListener
	s *Supervisor
}

// Accept implements net.Listener.
func (o only) Accept() (net.Conn, error) {
	for {
		conn, err := o.AcceptUnix()
		if err != nil {
			return nil, err
		}
		who, err := peer(conn)
		if err == nil && int64(who.Pid) == o.s.pid.Load() && who.Pid != 0 {
			return conn, nil
		}
		if err := conn.Close(); err != nil {
			o.s.c.Log.Debug("a connection was not closed", "reason", err.Error())
		}
		if who != nil {
			o.s.c.Log.Warn("a process that is not the front was turned away", "pid", who.Pid, "uid", who.Uid)
		}
	}
}
