package rehearse

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/tool"
)

// sandbox runs an etcd member and an API server on a set: processes of this host that listen on loopback, admit only clients that its PKI
// authenticates, and end with this process.
type sandbox struct {
	dir      string
	programs map[string]string // paths by name
	params   layout.Params
	pki      *pki.PKI
	known    []byte // the authority by which the set's clients identify the cluster
	ports    layout.SandboxPorts
	is       layout.Sandbox
	running  map[string]*process
}

// process is one program of a sandbox.
type process struct {
	cmd    *exec.Cmd
	log    string // file with its output
	exited chan error
	err    error // set once it has ended
	ended  bool
}

// newSandbox unpacks the programs into dir; it starts nothing.
func newSandbox(ctx context.Context, dir string, b *bundle.Bundle, p layout.Params, k *pki.PKI) (*sandbox, error) {
	s := &sandbox{dir: dir, programs: map[string]string{}, params: p, pki: k, running: map[string]*process{}}
	for _, name := range []string{"etcd", "etcdutl", "kube-apiserver"} {
		path, err := b.Program(ctx, name, dir)
		if err != nil {
			return nil, err
		}
		s.programs[name] = path
	}
	return s, nil
}

// moves bounds the attempts to start etcd, each on other ports, while other processes take a port first.
const moves = 5

// restore unpacks a snapshot into the data directory and starts etcd on it.
func (s *sandbox) restore(ctx context.Context, snapshot string) error {
	for try := 1; ; try++ {
		if err := s.settle(ctx); err != nil {
			return err
		}
		if err := os.RemoveAll(s.is.Data); err != nil {
			return fail.Wrap(fail.Internal, err, "clear the sandbox")
		}
		if err := s.unpack(ctx, snapshot); err != nil {
			return err
		}
		err := s.start("etcd", s.is.Etcd)
		if err == nil {
			err = s.awaitEtcd(ctx)
		}
		if err == nil || try == moves || !s.hasSaid("etcd", "address already in use") {
			return err
		}
	}
}

// unpack unpacks a snapshot into the data directory. Without a snapshot etcd starts empty.
func (s *sandbox) unpack(ctx context.Context, snapshot string) error {
	if snapshot == "" {
		return nil
	}
	_, err := tool.Run(ctx, nil, s.programs["etcdutl"], "snapshot", "restore", snapshot, "--data-dir", s.is.Data, "--name", s.is.Member,
		"--initial-cluster", s.is.Member+"="+s.is.Peer, "--initial-advertise-peer-urls", s.is.Peer)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "etcd does not take the snapshot: it is damaged, or of a newer etcd").Do("use another set")
	}
	return nil
}

// settle chooses ports and writes the programs' configuration.
func (s *sandbox) settle(ctx context.Context) error {
	var held []net.Listener
	var ports []int
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fail.Wrap(fail.Refused, err, "find a free port on loopback")
		}
		held, ports = append(held, l), append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range held {
		if err := l.Close(); err != nil {
			return fail.Wrap(fail.Internal, err, "free a port")
		}
	}
	s.ports = layout.SandboxPorts{Client: ports[0], Peer: ports[1], API: ports[2]}
	var err error
	if s.is, err = s.params.Sandbox(ctx, s.pki, s.dir, s.ports); err != nil {
		return err
	}
	for _, f := range s.is.Files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
			return fail.Wrap(fail.Internal, err, "lay the sandbox out")
		}
		if err := os.WriteFile(f.Path, f.Content, f.Mode); err != nil {
			return fail.Wrap(fail.Internal, err, "lay the sandbox out")
		}
	}
	return nil
}

// start starts a program. It dies with this process, even if this process is killed.
func (s *sandbox) start(name string, args []string) error {
	p := &process{log: filepath.Join(s.dir, name+".log"), exited: make(chan error, 1)}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "start %s", name)
	}
	defer log.Close() // the program has its own descriptor
	p.cmd = exec.Command(s.programs[name], args...)
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = s.dir, tool.Env(), log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := tool.StartLocked(p.cmd, p.exited); err != nil {
		return fail.Wrap(fail.Refused, err, "start %s of the bundle", name).Do("the bundle must be for this host's processor, and the directory for temporary files allow programs: TMPDIR")
	}
	s.running[name] = p
	return nil
}

// alive returns an error if a program has ended.
func (s *sandbox) alive(name string) error {
	p := s.running[name]
	if p == nil {
		return fail.New(fail.Internal, "%s was not started", name)
	}
	if !p.ended {
		select {
		case p.err = <-p.exited:
			p.ended = true
		default:
			return nil
		}
	}
	return fail.New(fail.Refused, "%s has ended in the sandbox: %s", name, s.said(name))
}

// said returns the last output of a program.
func (s *sandbox) said(name string) string {
	data, err := os.ReadFile(filepath.Join(s.dir, name+".log"))
	if err != nil {
		return err.Error()
	}
	return tool.Printable(tool.LastLines(string(data), 3))
}

// hasSaid reports whether a program's output contains a text.
func (s *sandbox) hasSaid(name, text string) bool {
	data, err := os.ReadFile(filepath.Join(s.dir, name+".log"))
	return err == nil && bytes.Contains(data, []byte(text))
}

// stopping is a program's time to end after SIGTERM.
const stopping = 10 * time.Second

// stop ends a program, by force if SIGTERM does not suffice, and waits for its end.
func (s *sandbox) stop(name string) {
	p := s.running[name]
	if p == nil || p.ended {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case p.err = <-p.exited:
	case <-time.After(stopping):
		_ = p.cmd.Process.Kill()
		p.err = <-p.exited
	}
	p.ended = true
	delete(s.running, name)
}

// close ends all programs.
func (s *sandbox) close() {
	s.stop("kube-apiserver")
	s.stop("etcd")
}

// etcd connects to the sandbox's etcd.
func (s *sandbox) etcd(ctx context.Context) (*etcd.Client, error) {
	pair, err := s.pki.Issue(ctx, pki.LeafSpec{Authority: pki.EtcdCA, CommonName: "naupegos", Client: true}, time.Hour)
	if err != nil {
		return nil, err
	}
	cert, err := tls.X509KeyPair(pair.CertPEM, pair.KeyPEM)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "load the etcd client certificate")
	}
	ca, err := s.pki.CABundle(ctx, pki.EtcdCA)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return etcd.Connect(ctx, etcd.Options{
		Endpoints: []etcd.Endpoint{{Name: s.is.Member, URL: layout.SandboxURL(s.ports.Client)}}, Timeout: time.Minute,
		TLS: &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12},
	})
}

// pause is the polling interval while a program starts.
const pause = 100 * time.Millisecond

// awaitEtcd waits until etcd serves.
func (s *sandbox) awaitEtcd(ctx context.Context) error {
	return s.await(ctx, "etcd", func(ctx context.Context) error {
		client, err := s.etcd(ctx)
		if err != nil {
			return err
		}
		defer client.Close()
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return client.WaitHealthy(ctx, 1)
	})
}

// await waits until a started program is ready.
func (s *sandbox) await(ctx context.Context, name string, ready func(context.Context) error) error {
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		if dead := s.alive(name); dead != nil {
			return dead
		}
		if kind := fail.KindOf(err); ctx.Err() == nil && kind != fail.NotReady && kind != fail.Unreachable {
			return err
		}
		select {
		case <-ctx.Done():
			return fail.Wrap(fail.KindOf(ctx.Err()), errors.Join(err, errors.New(s.said(name))), "wait for %s in the sandbox", name).
				Do("--timeout gives it more time")
		case <-time.After(pause):
		}
	}
}

// client connects to the sandbox's API server with the kubeconfig that render returns.
func (s *sandbox) client(ctx context.Context, render func(layout.Params, context.Context, *pki.PKI, string) ([]byte, error)) (*kube.Client, error) {
	conf, err := render(s.params, ctx, s.pki, strings.TrimPrefix(layout.SandboxURL(s.ports.API), "https://"))
	if err != nil {
		return nil, err
	}
	return kube.NewClient(conf, kube.ClientOptions{Timeout: time.Minute, QPS: 500})
}
