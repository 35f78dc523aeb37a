// Command captive starts a front process that tries to get out, as its HTTP clients tell it.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/naupegos/naupegos/internal/server/front"
)

func main() {
	err := error(nil)
	if len(os.Args) == 2 && os.Args[1] == "front" {
		err = captive()
	} else {
		err = keep(os.Args[1], os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// files are below a directory.
type files string

func (f files) Open(_ context.Context, name string) (*os.File, error) {
	return os.OpenInRoot(string(f), name)
}

// keep is the main process.
func keep(leases, assets string) error {
	ctx := context.Background()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	s, err := front.Start(ctx, front.Config{Args: []string{"front"}, HTTP: l, Leases: leases, Files: files(assets), Log: slog.Default(), Stderr: os.Stderr, Drain: time.Second})
	if err != nil {
		return err
	}
	return s.Run(ctx, func() error {
		_, err := fmt.Println(l.Addr())
		return err
	})
}

// captive is the front process.
func captive() error {
	p, err := front.Enter(os.Stdin)
	if err != nil {
		return err
	}
	gone, err := p.Serve()
	if err != nil {
		return err
	}
	go func() {
		<-gone
		os.Exit(0)
	}()
	return http.Serve(p.Listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { //nolint:gosec // a test's
		what, err := try(r.Context(), p, r.FormValue("do"), r.FormValue("of"))
		if err != nil {
			w.WriteHeader(http.StatusForbidden)
			what = err.Error()
		}
		fmt.Fprint(w, what)
	}))
}

func try(ctx context.Context, p *front.Process, do, of string) (string, error) {
	pid, _ := strconv.Atoi(of) // or none is needed
	switch do {
	case "read":
		data, err := os.ReadFile(of)
		return string(data), err
	case "list":
		all, err := os.ReadDir(of)
		return fmt.Sprint(all), err
	case "write":
		return "", os.WriteFile(of, []byte("theirs"), 0o600)
	case "dial":
		c, err := net.DialTimeout("tcp", of, 5*time.Second)
		if err != nil {
			return "", err
		}
		return "", c.Close()
	case "dial mptcp":
		var d net.Dialer
		d.SetMultipathTCP(true)
		c, err := d.DialContext(ctx, "tcp", of)
		if err != nil {
			return "", err
		}
		return "", c.Close()
	case "packets": // as TFTP has them, a port for each transfer
		c, err := net.ListenPacket("udp", of)
		if err != nil {
			return "", err
		}
		_, err = c.WriteTo([]byte("x"), &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9})
		return "", errors.Join(err, c.Close())
	case "listen":
		l, err := net.Listen("tcp", of)
		if err != nil {
			return "", err
		}
		return "", l.Close()
	case "signal":
		return "", syscall.Kill(pid, 0)
	case "trace":
		return "", syscall.PtraceAttach(pid)
	case "namespace", "namespace by clone3":
		flags := uintptr(syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET)
		if do == "namespace" {
			return "", clone(syscall.SYS_CLONE, flags|uintptr(syscall.SIGCHLD), 0)
		}
		args := [11]uint64{uint64(flags), 0, 0, 0, uint64(syscall.SIGCHLD)}
		return "", clone(435, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
	case "run":
		return "", exec.Command(of).Run()
	case "open file":
		var stat syscall.Stat_t
		n, err := strconv.Atoi(of)
		if err == nil {
			err = syscall.Fstat(n, &stat)
		}
		if err == nil && stat.Mode&syscall.S_IFMT != syscall.S_IFREG {
			err = errors.New("not a file")
		}
		return "", err
	case "root":
		return "", errors.Join(syscall.Setuid(0), syscall.Chroot("/"))
	case "raw":
		fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_ICMP)
		if err != nil {
			return "", err
		}
		return "", syscall.Close(fd)
	case "environment":
		return strings.Join(os.Environ(), " "), nil
	case "asset":
		f, err := p.Main.Open(ctx, of)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if _, err := f.Write([]byte("theirs")); err == nil {
			return "", errors.New("the file can be written")
		}
		data := make([]byte, 100)
		n, err := f.Read(data)
		return string(data[:n]), err
	}
	return "", errors.New("what?")
}

// clone makes a process, which ends at once.
func clone(call, a, b uintptr) error {
	pid, _, e := syscall.RawSyscall6(call, a, b, 0, 0, 0, 0)
	if e != 0 {
		return e
	}
	if pid == 0 {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}
