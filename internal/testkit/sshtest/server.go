package sshtest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/testkit"
)

// Server is an SSH server in this process, on loopback. It runs commands on this host, through sh as sshd does.
type Server struct {
	net.Listener
	HostKey ssh.Signer
	Logins  atomic.Int32
	Execs   atomic.Int32 // number of requested commands
	Mute    atomic.Bool  // accept connections and send nothing
	PTY     atomic.Value // the last request for a terminal, a string
	Sizes   chan [2]int  // columns and rows of each change of the terminal's size
	// Command, if set, changes each command before it runs.
	Command func(string) string

	user  ssh.PublicKey
	mu    sync.Mutex
	conns []net.Conn
}

// NewServer starts a server until the test ends. It admits the owner of one key, under any user name.
func NewServer(t testing.TB, user ssh.PublicKey) *Server {
	t.Helper()
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &Server{Listener: l, HostKey: NewKey(t), user: user, Sizes: make(chan [2]int, 10)}
	t.Cleanup(func() { _ = l.Close(); s.Cut() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.conns = append(s.conns, c)
			s.mu.Unlock()
			go s.serve(c)
		}
	}()
	return s
}

// Port returns the port that the server listens at.
func (s *Server) Port() int { return s.Addr().(*net.TCPAddr).Port }

// Cut closes all connections.
func (s *Server) Cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func (s *Server) serve(raw net.Conn) {
	if s.Mute.Load() {
		return
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), s.user.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	cfg.AddHostKey(s.HostKey)
	conn, chans, reqs, err := ssh.NewServerConn(raw, cfg)
	if err != nil {
		return
	}
	s.Logins.Add(1)
	alive, end := context.WithCancel(context.Background())
	defer end()
	go func() {
		for r := range reqs {
			if r.WantReply && !s.Mute.Load() {
				_ = r.Reply(false, nil)
			}
		}
	}()
	for ch := range chans {
		switch {
		case s.Mute.Load():
		case ch.ChannelType() == "session":
			go s.session(alive, ch)
		case ch.ChannelType() == "direct-tcpip":
			go forward(ch)
		default:
			_ = ch.Reject(ssh.UnknownChannelType, "no")
		}
	}
	_ = conn.Close()
}

func forward(ch ssh.NewChannel) {
	var p struct {
		Host   string
		Port   uint32
		From   string
		Origin uint32
	}
	if err := ssh.Unmarshal(ch.ExtraData(), &p); err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	out, err := net.Dial("tcp", net.JoinHostPort(p.Host, strconv.Itoa(int(p.Port))))
	if err != nil {
		_ = ch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	in, reqs, err := ch.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(reqs)
	go func() { _, _ = io.Copy(out, in); _ = out.Close() }()
	_, _ = io.Copy(in, out)
	_ = in.Close()
}

func (s *Server) session(ctx context.Context, nc ssh.NewChannel) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	for r := range reqs {
		ok, then := true, func() {} // then runs after the answer, as in sshd
		switch r.Type {
		case "exec":
			n := binary.BigEndian.Uint32(r.Payload)
			s.Execs.Add(1)
			command := string(r.Payload[4 : 4+n])
			if s.Command != nil {
				command = s.Command(command)
			}
			then = func() { go run(ctx, ch, command) }
		case "shell":
			then = func() { go run(ctx, ch, "echo shell; read line; echo got $line; exit 7") }
		case "pty-req":
			s.PTY.Store(string(r.Payload))
		case "window-change":
			s.Sizes <- [2]int{int(binary.BigEndian.Uint32(r.Payload)), int(binary.BigEndian.Uint32(r.Payload[4:]))}
		default:
			ok = false
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		then()
	}
}

// run runs a command until it or the connection ends.
func run(ctx context.Context, ch ssh.Channel, command string) {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Stdout, cmd.Stderr = ch, ch.Stderr()
	in, _ := cmd.StdinPipe()
	go func() { _, _ = io.Copy(in, ch); _ = in.Close() }()
	status := 0
	if err := cmd.Run(); err != nil {
		status = 255
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			status = exit.ExitCode()
		}
	}
	_, _ = ch.SendRequest("exit-status", false, binary.BigEndian.AppendUint32(nil, uint32(status)))
	_ = ch.Close()
}
