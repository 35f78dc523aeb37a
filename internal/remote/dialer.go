package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

// Dialer keeps SSH connections to many machines. It is safe for concurrent use. Close it when done.
type Dialer struct {
	o     Options
	agent *agentBinary
	most  int // of an agent's output

	wrong sync.Map // errors of hosts whose sudo did not accept the password, by Host.key

	mu      sync.Mutex
	signers []ssh.Signer
	slots   map[string]*slot
	closed  bool
}

// slot holds the one connection to a host. Its lock is a channel, so that waiting for it can be cancelled.
type slot struct {
	lock chan struct{}
	conn *conn
	via  string // key of the last jump host that worked
}

// NewDialer returns a Dialer that logs in with signers.
func NewDialer(signers []ssh.Signer, o Options) *Dialer {
	return &Dialer{o: o.withDefaults(), signers: signers, agent: &agentBinary{path: o.AgentPath}, most: maxAgentOutput, slots: map[string]*slot{}}
}

// SetKeys sets the keys with which new connections log in: the first one that the machine accepts.
func (d *Dialer) SetKeys(signers []Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.signers = signers
}

// keysFor returns the keys that log in to h.
func (d *Dialer) keysFor(h Host) ([]ssh.Signer, error) {
	if d.o.Signers != nil {
		return d.o.Signers(h)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.signers, nil
}

// Close ends all connections. Running commands fail.
func (d *Dialer) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, s := range d.slots {
		if c := s.get(); c != nil {
			c.close(errClosed)
		}
	}
	return nil
}

var errClosed = errors.New("the dialer was closed")

// get returns the connection without waiting for a dial in progress.
func (s *slot) get() *conn {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
		return s.conn
	default:
		return nil // its dial notices d.closed at its end
	}
}

func (d *Dialer) slot(h Host) (*slot, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fail.Wrap(fail.Interrupted, errClosed, "connect").At(h.where())
	}
	s, ok := d.slots[h.key()]
	if !ok {
		s = &slot{lock: make(chan struct{}, 1)}
		d.slots[h.key()] = s
	}
	return s, nil
}

// connect returns the open connection to h, or dials one. It dials each host once at a time.
func (d *Dialer) connect(ctx context.Context, h Host) (*conn, error) {
	s, err := d.slot(h)
	if err != nil {
		return nil, err
	}
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "connect").At(h.where())
	}
	if s.conn != nil && s.conn.alive() {
		return s.conn, nil
	}
	c, err := d.dial(ctx, h, s)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed {
		c.close(errClosed)
		return nil, fail.Wrap(fail.Interrupted, errClosed, "connect").At(h.where())
	}
	s.conn = c
	return c, nil
}

// dial opens transport and SSH connection within ConnectTimeout.
func (d *Dialer) dial(ctx context.Context, h Host, s *slot) (*conn, error) {
	check, err := d.hostKeys(h)
	if err != nil {
		return nil, err
	}
	signers, err := d.keysFor(h)
	if err != nil {
		return nil, fail.Wrap(fail.KindOf(err), err, "find the key that logs in").At(h.where())
	}
	var banner tailWriter
	banner.limit = headLimit
	dctx, cancel := context.WithTimeout(ctx, d.o.ConnectTimeout)
	defer cancel()
	raw, err := d.transport(dctx, h, s)
	if err != nil {
		return nil, connectError(ctx, h, err)
	}
	// Connections through a jump host have no deadlines: only closing them bounds the handshake.
	stop := context.AfterFunc(dctx, func() { _ = raw.Close() })
	client, chans, reqs, err := ssh.NewClientConn(raw, h.addr(), &ssh.ClientConfig{
		User: h.user(),
		Auth: []ssh.AuthMethod{ssh.PublicKeys(signers...)},
		BannerCallback: func(message string) error {
			_, err := banner.Write([]byte(message))
			return err
		},
		HostKeyCallback:   check.callback,
		HostKeyAlgorithms: check.algorithms,
	})
	if !stop() && err == nil {
		err = dctx.Err()
	}
	if err != nil {
		_ = raw.Close()
		if dctx.Err() != nil && ctx.Err() == nil {
			err = errors.Join(errHandshakeTimeout, err)
		}
		return nil, handshakeError(ctx, h, check, banner.String(), err)
	}
	return newConn(ssh.NewClient(client, chans, reqs), h, d.o), nil
}

var errHandshakeTimeout = errors.New("no SSH greeting in time")

// transport connects to h's SSH port, directly or through the first jump host that answers.
func (d *Dialer) transport(ctx context.Context, h Host, s *slot) (net.Conn, error) {
	if len(h.Via) == 0 {
		var nd net.Dialer
		return nd.DialContext(ctx, "tcp", h.addr())
	}
	raw, via, err := d.jump(ctx, h, s.via)
	if err == nil {
		s.via = via
	}
	return raw, err
}

// connectError classifies a failed transport.
func connectError(ctx context.Context, h Host, err error) error {
	if ctx.Err() != nil {
		return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "connect").At(h.where())
	}
	if k := fail.KindOf(err); k == fail.Unauthorized || k == fail.Refused { // of a jump host
		return fail.Wrap(k, err, "connect").At(h.where())
	}
	e := fail.Wrap(fail.Unreachable, err, "connect").At(h.where())
	if advised(err) { // a jump host's error
		return e
	}
	return e.Do("is the machine running, and does it listen for SSH on that address?")
}

// advised reports whether an error already says what to do.
func advised(err error) bool {
	var e *fail.Error
	for cur := err; errors.As(cur, &e); cur = e.Err {
		if e.Hint != "" {
			return true
		}
		if e.Err == nil {
			break
		}
	}
	return false
}

// handshakeError classifies a failed handshake. banner is the server's banner, in which PAM explains a refusal.
func handshakeError(ctx context.Context, h Host, check *hostKeyCheck, banner string, err error) error {
	var auth *ssh.AlgorithmNegotiationError
	switch {
	case ctx.Err() != nil:
		return fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "connect").At(h.where())
	case check.err != nil:
		return check.err
	case errors.As(err, &auth) && len(h.HostKeys) > 0:
		return fail.Wrap(fail.Unauthorized, err, "the host has no key of the pinned kind").At(h.where()).Do("%s", changedKeyHint)
	case strings.Contains(err.Error(), "oo many authentication failures"):
		return fail.Wrap(fail.Unauthorized, err, "log in as %s: the machine gave up before the right key was offered", h.user()).At(h.where()).
			Do("name the key by sshKeyFile, which is offered first, or keep fewer keys in the SSH agent")
	}
	said := oneLine(banner)
	if said != "" {
		err = fmt.Errorf("%w; it said: %s", err, said)
	}
	if s := diagnose(h, banner); s != nil {
		return fail.Wrap(s.kind, err, "log in as %s: %s", h.user(), s.means).At(h.where()).Do("%s", s.advice)
	}
	if isAuthError(err) {
		return fail.Wrap(fail.Unauthorized, err, "log in as %s", h.user()).At(h.where()).
			Do("the machine does not accept the user with the SSH key that was offered: check the user name, its authorized_keys, and whether sshd admits the user " +
				"(AllowUsers, an existing shell)")
	}
	e := fail.Wrap(fail.Unreachable, err, "SSH handshake").At(h.where())
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return e.Do("sshd ended the connection; its log there says why (journalctl -u ssh)")
	}
	return e
}
