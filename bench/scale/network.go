package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/tool"
)

// logins counts the logins to all machines.
type logins struct {
	count atomic.Int64
	last  atomic.Int64 // when the last one began, in nanoseconds
	mu    sync.Mutex
	cpu   time.Duration // of all that have ended, with the programs that they ran
}

// note records a login that has ended.
func (l *logins) note(p *os.ProcessState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cpu += p.UserTime() + p.SystemTime()
}

// spent returns the CPU time of all logins that have ended.
func (l *logins) spent() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cpu
}

// namespace is a network namespace with some machines. One thread lives in it.
type namespace struct {
	machines map[string]*host // by address
	work     chan func()      // for that thread
}

// do runs a function on the thread in the namespace: processes that it starts are in the namespace as well.
func (n *namespace) do(f func() error) error {
	done := make(chan error, 1)
	n.work <- func() { done <- f() }
	return <-done
}

// bridge makes the network from which the program reaches the machines.
func bridge() error {
	return ip("link set lo up", "link add nb0 type bridge", "addr add 198.18.0.1/16 dev nb0", "link set nb0 up")
}

// ip carries out commands of iproute2 at once.
func ip(commands ...string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip -batch: %w: %s", err, out)
	}
	return nil
}

// connect puts machines into a new network namespace, and lets sshd answer at their addresses.
func connect(index int, machines []*host, l *logins) (*namespace, error) {
	n := &namespace{machines: map[string]*host{}, work: make(chan func())}
	commands := []string{fmt.Sprintf("link add eth0 type veth peer name nb%d netns 1", index+1), "link set lo up"}
	for _, h := range machines {
		n.machines[h.address] = h
		commands = append(commands, "addr add "+h.address+"/16 dev eth0")
	}
	commands = append(commands, "link set eth0 up", "route add default via 198.18.0.1")
	begun := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the process
		err := syscall.Unshare(syscall.CLONE_NEWNET)
		begun <- err
		for f := range n.work {
			f()
		}
	}()
	if err := <-begun; err != nil {
		return nil, err
	}
	var listener net.Listener
	err := n.do(func() error {
		err := ip(commands...)
		if err == nil {
			listener, err = net.Listen("tcp4", ":22")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	go n.serve(listener, l)
	return n, ip(fmt.Sprintf("link set nb%d master nb0 up", index+1))
}

// serve starts one sshd per connection, as systemd does for ssh.socket with Accept=yes.
func (n *namespace) serve(listener net.Listener, l *logins) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		l.count.Add(1)
		l.last.Store(time.Now().UnixNano())
		if err := n.login(conn.(*net.TCPConn), l); err != nil {
			fmt.Fprintln(os.Stderr, "bench-scale: sshd:", err)
		}
	}
}

func (n *namespace) login(conn *net.TCPConn, l *logins) error {
	defer conn.Close() // sshd has its own descriptor
	at, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return err
	}
	file, err := conn.File()
	if err != nil {
		return err
	}
	defer file.Close()
	if err := syscall.SetNonblock(int(file.Fd()), false); err != nil {
		return err
	}
	cmd := exec.Command("/usr/sbin/sshd", "-i")
	cmd.Stdin, cmd.Stdout, cmd.Env, cmd.Dir = file, file, tool.Env(), "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: n.machines[at].root}
	if err := n.do(cmd.Start); err != nil {
		return err
	}
	go func() {
		_ = cmd.Wait() // a status other than 0 is a login's end as well
		l.note(cmd.ProcessState)
	}()
	return nil
}
