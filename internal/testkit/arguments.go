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

// Of linux/connector.h and linux/cn_proc.h.
const (
	procConnector = 1 // CN_IDX_PROC and CN_VAL_PROC
	procListen    = 1 // PROC_CN_MCAST_LISTEN
	procAnswer    = 0 // PROC_EVENT_NONE
	procExec      = 2 // PROC_EVENT_EXEC
	procHeader    = unix.SizeofNlMsghdr + 20
)

// arguments are the command lines that were seen on this host.
type arguments struct {
	fd         int
	seen       map[string]bool
	told, late int // programs that the kernel told of, those that had ended before they could be looked at
	lost       int // times that the kernel had more to tell than could be heard
	stop, done chan struct{}
}

// WatchArguments collects the command lines of all programs on this host, machines included, until the function that it returns is called.
// That returns them, one a line. It is the kernel that tells of each program when it starts (by the process connector, for which it has to
// be root of the host, and not of a container). A program that ends at once can still be missed; how many were is logged.
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

// listen works on a thread of its own, which goes before others: what a program was started with can be read only while it lives.
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

// listenMessage is a nlmsghdr, a cn_msg and its one word.
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

// procEvent returns what a proc_event tells, and the process that it tells of, or an answer's result.
func procEvent(raw []byte) (what, about uint32) {
	if len(raw) < procHeader+24 {
		return 1 << 30, 0
	}
	e := binary.NativeEndian
	if what = e.Uint32(raw[procHeader:]); what == procExec {
		return what, e.Uint32(raw[procHeader+20:]) // its thread group; process_pid is the thread's
	}
	return what, e.Uint32(raw[procHeader+16:])
}

// scan looks at all processes.
func (a *arguments) scan() {
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is good
	for _, dir := range all {
		a.look(dir)
	}
}

// look reports whether there were arguments to be seen: a process that has ended has none, nor has a thread of the kernel's.
func (a *arguments) look(dir string) bool {
	text, err := os.ReadFile(dir + "/cmdline")
	if err != nil || len(text) == 0 {
		return false
	}
	a.seen[string(text)] = true
	return true
}
