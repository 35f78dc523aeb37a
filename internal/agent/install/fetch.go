package install

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"time"

	"github.com/naupegos/naupegos/internal/agent/install/ask"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/order"
)

// files opens a server's files; see ask.Server.File.
type files interface {
	File(ctx context.Context, path string, offset int64) (body io.ReadCloser, at int64, err error)
}

// stream reads a blob from the server. If the server disconnects, it continues at the same offset, and gives up after patience without a single byte.
// It ends like the blob, or with an error: fail.Conflict if the data is not the blob.
type stream struct {
	ctx      context.Context //nolint:containedctx // io.Reader has no context
	from     files
	blob     order.Blob
	patience time.Duration
	pause    time.Duration // pause before a retry
	say      func(string)

	body  io.ReadCloser
	stall *time.Timer // closes a body that has become silent
	at    int64
	sum   hash.Hash
	since time.Time // time of the last byte
}

// Usual bounds of a stream.
const (
	usualPatience = 10 * time.Minute
	usualPause    = 2 * time.Second
)

func newStream(ctx context.Context, from files, b order.Blob, say func(string)) *stream {
	return &stream{ctx: ctx, from: from, blob: b, patience: usualPatience, pause: usualPause, say: say, sum: sha256.New(), since: time.Now()}
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for {
		if s.at == s.blob.Size {
			return 0, s.end()
		}
		if s.body == nil {
			if err := s.open(); err != nil {
				if err = s.wait(err); err != nil {
					return 0, err
				}
				continue
			}
		}
		s.stall.Reset(ask.Silence)
		n, err := s.body.Read(p[:min(int64(len(p)), s.blob.Size-s.at)])
		s.stall.Stop()
		if n > 0 {
			s.sum.Write(p[:n])
			s.at += int64(n)
			s.since = time.Now()
			return n, nil
		}
		if err == nil {
			continue
		}
		s.Close()
		if errors.Is(err, io.EOF) {
			err = fail.New(fail.Unreachable, "the file ended at %d of %d bytes", s.at, s.blob.Size)
		}
		if err = s.wait(err); err != nil {
			return 0, err
		}
	}
}

// open asks for the rest.
func (s *stream) open() error {
	body, at, err := s.from.File(s.ctx, s.blob.Path, s.at)
	if err != nil {
		return err
	}
	if at < s.at {
		if _, err := io.CopyN(io.Discard, body, s.at-at); err != nil {
			return errors.Join(fail.Wrap(fail.Unreachable, err, "find the place in %s", s.blob.Path), body.Close())
		}
	}
	s.body = body
	s.stall = time.AfterFunc(ask.Silence, func() { _ = body.Close() })
	return nil
}

// wait waits before the next attempt, or returns why there must be none.
func (s *stream) wait(why error) error {
	if fail.KindOf(why) == fail.NotFound || fail.KindOf(why) == fail.Refused {
		return why
	}
	if time.Since(s.since) > s.patience {
		return fail.Wrap(fail.Unreachable, why, "fetch %s: nothing came for %s", s.blob.Path, s.patience)
	}
	s.say("the server went away at byte " + itoa(s.at) + ", asking again: " + why.Error())
	select {
	case <-time.After(s.pause):
		return nil
	case <-s.ctx.Done():
		return fail.Wrap(fail.Interrupted, context.Cause(s.ctx), "fetch %s", s.blob.Path)
	}
}

// end returns io.EOF if the blob arrived intact.
func (s *stream) end() error {
	s.Close()
	if got := hex.EncodeToString(s.sum.Sum(nil)); got != s.blob.SHA256 {
		return fail.New(fail.Conflict, "%s was damaged on its way, or on the server: its SHA-256 is %s, and should be %s", s.blob.Path, got, s.blob.SHA256).
			Do("make the system image again: naupegos image system")
	}
	return io.EOF
}

// Close ends the connection.
func (s *stream) Close() {
	if s.body != nil {
		s.stall.Stop()
		_ = s.body.Close() // only read
		s.body = nil
	}
}
