package testkit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// From linux/connector.h and linux/cn_proc.h.
const (
	procConnector = 1 // CN_IDX_PROC and CN_VAL_PROC
	procListen    = 1 // PROC_CN_MCAST_LISTEN
	procAnswer    = 0 // PROC_EVENT_NONE
	procExec      = 2 // PROC_EVENT_EXEC
	procHeader    = unix.SizeofNlMsghdr + 20
)

// arguments collects the command lines seen on this host.
type arguments struct {
	fd         int
	seen       map[string]bool
	told, late int // started programs reported by the kernel, and the part of them that had ended before it could be read
	lost       int // number of times that the kernel dropped events
	stop, done chan struct{}
}

// WatchArguments collects the command lines of all programs on this host, including machines, until the returned function is called. That
// function returns them, one a line. The kernel reports each program that starts (process connector), which requires root of the host, outside
// of containers. A program that ends at once can be missed; the number of missed ones is logged.
func WatchArguments(t testing.TB) func() []byte {
	t.Helper()
	a := &arguments{seen: map[string]bool{}, stop: make(chan struct{}), done: make(chan struct{})}
	listening := make(chan error, 1)
	go a.listen(listening)
	if err := <-listening; err != nil {
		t.Fatalf("be told by the kernel which programs start: %v (it takes root, outside of containers)", err)
	}
	end := func() {
		select {
		case <-a.stop:
		default:
			close(a.stop)
		}
		<-a.done
	}
	t.Cleanup(end)
	return func() []byte {
		end()
		t.Logf("%d programs were started, %d of them had ended before their arguments could be read; events were lost %d times", a.told, a.late, a.lost)
		var b bytes.Buffer
		for s := range a.seen {
			b.WriteString(s + "\n")
		}
		return b.Bytes()
	}
}

// listen runs on its own thread with high priority, because a program's arguments can be read only while it runs.
func (a *arguments) listen(listening chan<- error) {
	defer close(a.done)
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)
	if err == nil {
		err = a.subscribe()
	}
	if a.fd > 0 {
		defer unix.Close(a.fd) //nolint:errcheck // nothing was written to it
	}
	if err == nil {
		a.scan()
	}
	listening <- err
	if err != nil {
		return
	}
	for raw := make([]byte, 1<<16); ; {
		select {
		case <-a.stop:
			return
		default:
		}
		n, _, err := unix.Recvfrom(a.fd, raw, 0)
		if errors.Is(err, unix.ENOBUFS) {
			a.lost++
			a.scan()
		}
		if what, pid := procEvent(raw[:max(n, 0)]); what == procExec {
			a.told++
			if !a.look(fmt.Sprint("/proc/", pid)) {
				a.late++
			}
		}
	}
}

func (a *arguments) subscribe() (err error) {
	if a.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_CONNECTOR); err != nil {
		return err
	}
	wait := unix.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
	for _, do := range []func() error{
		func() error { return unix.SetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20) },
		func() error { return unix.SetsockoptTimeval(a.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait) },
		func() error {
			return unix.Bind(a.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: procConnector})
		},
		func() error {
			return unix.Sendto(a.fd, listenMessage(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		},
	} {
		if err := do(); err != nil {
			return err
		}
	}
	raw := make([]byte, 1<<16)
	for began := time.Now(); time.Since(began) < 10*time.Second; {
		n, _, err := unix.Recvfrom(a.fd, raw, 0)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return err
		}
		if what, result := procEvent(raw[:max(n, 0)]); what == procAnswer {
			if result != 0 {
				return unix.Errno(result)
			}
			return nil
		}
	}
	return errors.New("the process connector does not answer")
}

// listenMessage returns an nlmsghdr, a cn_msg and its data, one word.
func listenMessage() []byte {
	b, e := make([]byte, procHeader+4), binary.NativeEndian
	e.PutUint32(b, uint32(len(b)))
	e.PutUint16(b[4:], unix.NLMSG_DONE)
	e.PutUint32(b[16:], procConnector)
	e.PutUint32(b[20:], procConnector)
	e.PutUint16(b[32:], 4)
	e.PutUint32(b[procHeader:], procListen)
	return b
}

// procEvent returns the kind of a proc_event and its process, or for procAnswer the result.
func procEvent(raw []byte) (what, about uint32) {
	if len(raw) < procHeader+24 {
		return 1 << 30, 0
	}
	e := binary.NativeEndian
	if what = e.Uint32(raw[procHeader:]); what == procExec {
		return what, e.Uint32(raw[procHeader+20:]) // the thread group; process_pid is the thread's ID
	}
	return what, e.Uint32(raw[procHeader+16:])
}

// scan looks at all running processes.
func (a *arguments) scan() {
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is valid
	for _, dir := range all {
		a.look(dir)
	}
}

// look records a process's arguments. It returns false if there are none, as for an ended process or a kernel thread.
func (a *arguments) look(dir string) bool {
	text, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(text) == 0 {
		return false
	}
	a.seen[string(text)] = true
	return true
}
