package remote

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// testServer is an SSH server in this process. Commands run on this machine, through sh as sshd would.
type testServer struct {
	net.Listener
	hostKey ssh.Signer
	user    ssh.PublicKey

	logins atomic.Int32
	mu     sync.Mutex
	conns  []net.Conn
	mute   atomic.Bool // accept and say nothing
	pty    atomic.Value
	sizes  chan Size
	// agentDir stands for machine.AgentDir in commands; empty means no change.
	agentDir string
	execs    atomic.Int32
}

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	private, _, err := GenerateKey("test")
	testkit.Must(t, err)
	s, err := ParseKey(private)
	testkit.Must(t, err)
	return s
}

func newServer(t *testing.T, user ssh.PublicKey) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	s := &testServer{Listener: l, hostKey: newKey(t), user: user, sizes: make(chan Size, 10)}
	t.Cleanup(func() { _ = l.Close(); s.cut() })
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

// host describes the server as a Host.
func (s *testServer) host(name string) Host {
	addr := s.Addr().(*net.TCPAddr)
	return Host{Name: name, Address: "127.0.0.1", Port: addr.Port, HostKeys: []string{PublicKey(s.hostKey)}}
}

// cut breaks all connections.
func (s *testServer) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.conns = nil
}

func (s *testServer) serve(raw net.Conn) {
	if s.mute.Load() {
		return
	}
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if !bytes.Equal(key.Marshal(), s.user.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}}
	cfg.AddHostKey(s.hostKey)
	conn, chans, reqs, err := ssh.NewServerConn(raw, cfg)
	if err != nil {
		return
	}
	s.logins.Add(1)
	go func() {
		for r := range reqs {
			if r.WantReply && !s.mute.Load() {
				_ = r.Reply(false, nil)
			}
		}
	}()
	for ch := range chans {
		switch {
		case s.mute.Load():
		case ch.ChannelType() == "session":
			go s.session(ch)
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

func (s *testServer) session(nc ssh.NewChannel) {
	ch, reqs, err := nc.Accept()
	if err != nil {
		return
	}
	for r := range reqs {
		ok, then := true, func() {} // what follows comes after the answer, as with sshd
		switch r.Type {
		case "exec":
			n := binary.BigEndian.Uint32(r.Payload)
			s.execs.Add(1)
			command := string(r.Payload[4 : 4+n])
			if s.agentDir != "" {
				command = strings.ReplaceAll(command, machine.AgentDir, s.agentDir)
			}
			then = func() { go run(ch, command) }
		case "shell":
			then = func() { go run(ch, "echo shell; read line; echo got $line; exit 7") }
		case "pty-req":
			s.pty.Store(string(r.Payload))
		case "window-change":
			s.sizes <- Size{int(binary.BigEndian.Uint32(r.Payload)), int(binary.BigEndian.Uint32(r.Payload[4:]))}
		default:
			ok = false
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		then()
	}
}

func run(ch ssh.Channel, command string) {
	cmd := exec.Command("sh", "-c", command)
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

func dialer(t *testing.T, o Options, signers ...ssh.Signer) *Dialer {
	t.Helper()
	d := NewDialer(signers, o)
	t.Cleanup(func() { testkit.Must(t, d.Close()) })
	return d
}

func eventually(t *testing.T, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited 20 s in vain")
		}
	}
}

// has fails the test unless err's text holds all of parts.
func has(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error %v lacks %q", err, p)
		}
	}
}
