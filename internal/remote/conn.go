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
	sessions chan struct{} // bounds concurrent sessions
	done     chan struct{} // closed when the connection has ended

	mu    sync.Mutex
	why   error
	spare int // number of sessions by which the server's limit is below the bound
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

// close ends the connection and keeps the first reason.
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

// reason returns why the connection ended.
func (c *conn) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// keepAlive probes the other side, and closes the connection if no answer arrives within dead.
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
			// Any answer counts, even a refusal of the request.
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

// refusedRetries is how often to retry a session that a server refuses while no other one runs, because the server may still count one that has just
// ended.
const refusedRetries = 10

// session opens a session on the cached connection to h. It replaces a dead connection once. On a server that allows fewer sessions than Options says
// (MaxSessions), it respects that limit from then on.
func (d *Dialer) session(ctx context.Context, h Host) (*ssh.Session, *conn, error) {
	for try, refusals := 0, 0; ; {
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
		var refused *ssh.OpenChannelError
		isRefused := errors.As(err, &refused)
		if isRefused && c.fewer() {
			continue // keep the slot: one session less from now on
		}
		<-c.sessions
		switch {
		case ctx.Err() != nil:
			return nil, nil, fail.Wrap(fail.KindOf(ctx.Err()), ctx.Err(), "open an SSH session").At(h.where())
		case isRefused && refusals < refusedRetries:
			refusals++
			pause(ctx, time.Duration(refusals)*20*time.Millisecond)
			continue
		case isRefused:
			return nil, nil, fail.Wrap(fail.Refused, err, "open an SSH session").At(h.where()).Do("raise MaxSessions in the machine's sshd_config")
		case try > 0:
			return nil, nil, fail.Wrap(fail.Unreachable, err, "open an SSH session").At(h.where())
		}
		try++
		c.close(err)
	}
}

// fewer lowers the bound of sessions by one after a refusal; it returns false if no other session runs.
func (c *conn) fewer() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions)-c.spare < 2 {
		return false
	}
	c.spare++
	return true
}

// pause waits for the duration, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// await runs open, which can't be cancelled, and abandons it when ctx or the connection ends: the library waits forever if a channel is requested
// just while the connection ends. await closes a late result.
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
