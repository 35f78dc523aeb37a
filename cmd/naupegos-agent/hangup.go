package main

import (
	"context"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// untilHangup returns a context that ends with ctx or when the reader of standard output disappears. sshd does not pass signals on to root's
// commands, but it closes their pipes when the operator stops or the connection breaks. The context's end also ends reads from standard input.
func (c *command) untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if out, ok := c.out.(*os.File); ok {
		go watch(ctx, out, cancel)
	}
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = r.CloseWithError(context.Cause(ctx)) })
	go func(in io.Reader) {
		_, err := io.Copy(w, in)
		_ = w.CloseWithError(err) // nil is the end of input
	}(c.in)
	c.in = r
	return ctx, cancel
}

// watch calls gone when the other end of out is closed.
func watch(ctx context.Context, out *os.File, gone func()) {
	for ctx.Err() == nil {
		// Without requested events, only errors and hang-ups, which poll always reports, end the wait.
		fds := []unix.PollFd{{Fd: int32(out.Fd())}}
		n, err := unix.Poll(fds, 1000)
		if err != nil && err != unix.EINTR {
			return // poll does not support this kind of file
		}
		if n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
			gone()
			return
		}
	}
}
