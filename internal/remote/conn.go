package remote

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

// conn is one SSH connection with its keep-alive.
type conn struct {
	*ssh.Client
	host     Host
	sessions chan struct{} // bounds sessions at once
	done     chan struct{} // closed when the connection has ended

	mu  sync.Mutex
	why error
}

var errDead = errors.New("the machine no longer answers")

func newConn(client *ssh.Client, h Host, o Options) *conn {
	c := &conn{Client: client, host: h, sessions: make(chan struct{}, o.Sessions), done: make(chan struct{})}
	go func() {
		err := client.Wait()
		c.close(err)
		close(c.done)
	}()
	go c.keepAlive(o.KeepAlive, o.Dead)
	return c
}

func (c *conn) alive() bool {
	select {
	case <-c.done:
		return false
	default:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.why == nil
	}
}

// close ends the connection; the first reason is kept.
func (c *conn) close(why error) {
	c.mu.Lock()
	if c.why == nil {
		c.why = why
		if why == nil {
			c.why = errors.New("the connection ended")
		}
	}
	c.mu.Unlock()
	_ = c.Client.Close() // it may be closed already
}

// reason says why the connection ended.
func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// keepAlive probes the other side, and closes the connection when no answer comes within dead.
func (c *conn) keepAlive(every, dead time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		answer := make(chan error, 1)
		go func() {
			// Any answer will do, also "I don't know that request".
			_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
			answer <- err
		}()
		limit := time.NewTimer(dead)
		select {
		case err := <-answer:
			if err != nil {
				c.close(errDead)
			}
		case <-limit.C:
			c.close(errDead)
		case <-c.done:
		}
		limit.Stop()
	}
}

// session opens a session on the cached connection to h. A connection that turns out to be dead is replaced once.
func (d *Dialer) session(ctx context.Context, h Host) (*ssh.Session, *conn, error) {
	for try := 0; ; try++ {
		c, err := d.connect(ctx, h)
		if err != nil {
			return nil, nil, err
		}
		select {
		case c.sessions <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "wait for a free SSH session").At(h.where())
		}
		s, err := await(ctx, c, c.NewSession)
		if err == nil {
			return s, c, nil
		}
		<-c.sessions
		var refused *ssh.OpenChannelError
		switch {
		case ctx.Err() != nil:
			return nil, nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "open an SSH session").At(h.where())
		case errors.As(err, &refused):
			return nil, nil, fail.Wrap(fail.Unreachable, err, "open an SSH session").At(h.where()).Do("raise MaxSessions in the machine's sshd_config")
		case try > 0:
			return nil, nil, fail.Wrap(fail.Unreachable, err, "open an SSH session").At(h.where())
		}
		c.close(err)
	}
}

// await runs open, which can't be cancelled, and gives up on it when ctx or the connection ends: the library waits forever
// where a channel is asked for just while the connection ends. A result that comes later is closed.
func await[T interface{ Close() error }](ctx context.Context, c *conn, open func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	ch := make(chan result, 1)
	go func() {
		v, err := open()
		ch <- result{v, err}
	}()
	var none T
	var err error
	select {
	case r := <-ch:
		return r.value, r.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-c.done:
		err = c.reason()
	}
	go func() {
		if r := <-ch; r.err == nil {
			_ = r.value.Close()
		}
	}()
	return none, err
}
