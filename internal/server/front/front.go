// Package front runs the process that faces strangers: it owns the sockets that machines boot over, and holds none of the store's keys. It asks the
// main process over a unix socket. There the main process answers this one process, and only questions that strangers may ask.
//
// The package lets the two processes find, watch and ask each other. It knows nothing about their subject.
package front

import (
	"encoding/json"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Prefix begins the paths that only the front process may ask.
const Prefix = "/.front/"

// clientHeader names the client of a forwarded request. The main process believes it only on the front's socket.
const clientHeader = "Naupegos-Front-Client"

// listenerFD is the descriptor of the front process' TCP listener.
const listenerFD = 3

// leasesFD is the descriptor of the directory that it may write to, if any.
const leasesFD = 4

// LeasesDir is the path of the directory that the front process may write to.
const LeasesDir = "/proc/self/fd/4"

// Settings go to the front process on its standard input. They hold no secret.
type Settings struct {
	Requests string          // the socket for requests
	Files    string          // the socket that carries files
	User     *User           // the process becomes this user; nil changes nothing
	Network  bool            // the process opens sockets that need capabilities
	Writes   bool            // LeasesDir exists
	Own      json.RawMessage // for the caller of Enter
}

// User is an unprivileged user.
type User struct{ UID, GID int }

// started goes to the main process on standard output, once the front process serves or has failed.
type started struct {
	Ready bool   `json:"ready"`
	Kind  string `json:"kind,omitempty"`
	Error string `json:"error,omitempty"`
	Note  string `json:"note,omitempty"` // a right that the process could not drop
}

// Process is this process as the front.
type Process struct {
	Settings
	Listener net.Listener // for plain HTTP
	Main     *Main
	stdin    *json.Decoder
}

// Enter makes this process the front: it reads its settings, and becomes an unprivileged user that can still open its sockets.
func Enter(stdin io.Reader) (*Process, error) {
	p := &Process{stdin: json.NewDecoder(stdin)}
	if err := p.stdin.Decode(&p.Settings); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the server's message").Do("naupegos server starts this process by itself")
	}
	os.Clearenv()
	// Their first use reads files, or makes sockets to see which protocols the host has: neither works once the process is shut in.
	_, _ = time.Now().Zone()
	_ = mime.TypeByExtension(".x")
	if c, err := net.ListenPacket("udp", ":0"); err == nil {
		_ = c.Close() // no packet was sent
	}
	if err := p.becomeUser(); err != nil {
		return nil, fail.Wrap(fail.Refused, err, "give up privileges")
	}
	file := os.NewFile(listenerFD, "listener")
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "take over the listener")
	}
	p.Listener = l
	if err := file.Close(); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "take over the listener")
	}
	p.Main = NewMain(p.Settings)
	return p, nil
}

// Serve shuts the process in and tells the main process that it is ready. The channel closes when the main process stops it or has ended.
func (p *Process) Serve() (<-chan struct{}, error) {
	note, err := p.shutIn()
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "shut the process in")
	}
	if err := say(os.Stdout, started{Ready: true, Note: note}); err != nil {
		return nil, err
	}
	gone := make(chan struct{})
	go func() {
		var nothing struct{}
		for p.stdin.Decode(&nothing) == nil {
		}
		close(gone)
	}()
	return gone, nil
}

// Fail tells the main process why this process does not serve.
func Fail(err error) {
	_ = say(os.Stdout, started{Kind: fail.KindOf(err).String(), Error: err.Error()}) // the main process has ended
}

func say(w io.Writer, s started) error {
	data, err := json.Marshal(s)
	if err == nil {
		_, err = w.Write(append(data, '\n'))
	}
	if err != nil {
		return fail.Wrap(fail.Internal, err, "tell the server that machines are served")
	}
	return nil
}

// Believe gives requests the client's address that the front process wrote into a header. It belongs only on a listener that accepts no other process.
func Believe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if from := r.Header.Get(clientHeader); from != "" {
			r.RemoteAddr = from
		}
		r.Header.Del(clientHeader)
		next.ServeHTTP(w, r)
	})
}

// Hide refuses clients of the front process all paths below Prefix, and drops their claims about their address.
func Hide(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, Prefix) {
			http.NotFound(w, r)
			return
		}
		r.Header.Del(clientHeader)
		next.ServeHTTP(w, r)
	})
}

// peer returns the process at the other end of a unix socket.
func peer(c *net.UnixConn) (*syscall.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	var cred *syscall.Ucred
	var got error
	if err := raw.Control(func(fd uintptr) {
		cred, got = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return cred, got
}
