package front

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/problem"
)

// asking bounds the time in which the main process opens a file.
const asking = 10 * time.Second

// Main reaches the main process.
type Main struct {
	files  string
	Client *http.Client // for paths below Prefix, at http://main
	proxy  *httputil.ReverseProxy
}

// NewMain returns the main process that listens at the sockets of the settings.
func NewMain(s Settings) *Main {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.Requests)
	}
	t := &http.Transport{DialContext: dial, MaxIdleConnsPerHost: 256, IdleConnTimeout: time.Minute, DisableCompression: true}
	m := &Main{files: s.Files, Client: &http.Client{Transport: t}}
	m.proxy = &httputil.ReverseProxy{
		Transport: t,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = "http", "main"
			r.Out.Host = r.In.Host
			r.Out.Header.Set(clientHeader, r.In.RemoteAddr)
		},
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			var large *http.MaxBytesError
			if errors.As(err, &large) {
				problem.Write(w, err)
				return
			}
			if b, is := r.Context().Value(bodyKey{}).(*body); is && r.Context().Err() == nil {
				if err := b.failed(); err != nil {
					problem.Write(w, fail.Wrap(fail.Invalid, err, "read the request's body"))
					return
				}
			}
			if r.Context().Err() == nil {
				w.Header().Set("Retry-After", "5")
			}
			problem.Write(w, fail.New(fail.Unreachable, "the server does not answer").Do("ask again in a few seconds"))
		},
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug), // the client gets the error
	}
	return m
}

// ServeHTTP forwards a request. The main process sets all headers of the answer.
func (m *Main) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	clear(w.Header())
	if r.Body != nil && r.Body != http.NoBody {
		b := &body{ReadCloser: r.Body}
		r = r.WithContext(context.WithValue(r.Context(), bodyKey{}, b))
		r.Body = b
	}
	m.proxy.ServeHTTP(w, r)
}

// body keeps the error of a client's body apart from those of the main process.
type body struct {
	io.ReadCloser
	mu  sync.Mutex
	err error
}

type bodyKey struct{}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, http.ErrBodyReadAfterClose) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
	}
	return n, err
}

func (b *body) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// Open asks the main process for an open file. It implements boot.Assets.
func (m *Main) Open(ctx context.Context, name string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	if strings.ContainsAny(name, "\n\x00") || len(name) > maxName {
		return nil, fs.ErrNotExist
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", m.files)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "ask for a file")
	}
	defer conn.Close() // the file is open by itself
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return nil, err
		}
	}
	if _, err := io.WriteString(conn, name+"\n"); err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "ask for a file")
	}
	answer, oob := make([]byte, 512), make([]byte, syscall.CmsgSpace(4))
	n, oobn, _, _, err := conn.(*net.UnixConn).ReadMsgUnix(answer, oob)
	if err != nil || n == 0 {
		return nil, fail.Wrap(fail.Unreachable, errors.Join(err, io.ErrUnexpectedEOF), "ask for a file")
	}
	switch answer[0] {
	case fileFound:
	case fileMissing:
		return nil, fs.ErrNotExist
	default:
		return nil, fail.New(fail.Refused, "%s", answer[1:n])
	}
	messages, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return nil, fail.Wrap(fail.Internal, errors.Join(err, io.ErrUnexpectedEOF), "receive a file")
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fail.Wrap(fail.Internal, errors.Join(err, io.ErrUnexpectedEOF), "receive a file")
	}
	syscall.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), name), nil
}

// The first byte of an answer about a file; the file itself, or the reason, follows.
const (
	fileFound   = 'f'
	fileMissing = 'm'
	fileRefused = 'r'
)

// maxName bounds the name of a file.
const maxName = 1024

// Opener opens files for the front process.
type Opener interface {
	Open(ctx context.Context, name string) (*os.File, error)
}

// opening bounds how many files the main process opens at once.
const opening = 64

// giveFiles opens files for the front process until the socket closes.
func giveFiles(ctx context.Context, l net.Listener, from Opener, log *slog.Logger) {
	var g errgroup.Group
	g.SetLimit(opening)
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // as when this process has too many files open
			log.Error("the front process does not get a file", "reason", err.Error())
			time.Sleep(100 * time.Millisecond)
			continue
		}
		g.Go(func() error {
			if err := giveFile(ctx, conn.(*net.UnixConn), from); err != nil {
				log.Debug("a file was not given to the front process", "reason", err.Error())
			}
			return nil
		})
	}
}

func giveFile(ctx context.Context, conn *net.UnixConn, from Opener) (err error) {
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(asking)); err != nil {
		return err
	}
	name, err := bufio.NewReader(io.LimitReader(conn, maxName+1)).ReadString('\n')
	if err != nil {
		return err
	}
	f, err := from.Open(ctx, strings.TrimSuffix(name, "\n"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err = conn.Write([]byte{fileMissing})
		return err
	case err != nil:
		text := err.Error()
		_, err = conn.Write(append([]byte{fileRefused}, text[:min(len(text), 500)]...))
		return err
	}
	defer f.Close() // the front process has its own
	_, _, err = conn.WriteMsgUnix([]byte{fileFound}, syscall.UnixRights(int(f.Fd())), nil)
	return err
}
