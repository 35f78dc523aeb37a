package signin

import (
	"context"
	"crypto/subtle"
	"net"
	"net/http"
	"time"

	"golang.org/x/oauth2"

	"github.com/naupegos/naupegos/internal/fail"
)

// returnPath is the path that the provider redirects the browser to.
const returnPath = "/callback"

// comeBack handles the browser's return from the provider.
type comeBack struct {
	state string
	once  chan answer
}

type answer struct {
	code string
	err  error
}

func newReturn() *comeBack {
	return &comeBack{state: oauth2.GenerateVerifier(), once: make(chan answer, 1)}
}

// ServeHTTP accepts the first answer with the right state. It ignores others, because any page in the browser can send requests to loopback.
func (b *comeBack) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if r.Method != http.MethodGet || r.URL.Path != returnPath || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(b.state)) != 1 {
		http.NotFound(w, r)
		return
	}
	var a answer
	switch {
	case q.Get("error") != "":
		a.err = fail.New(fail.Unauthorized, "the provider refused the sign-in: %.100q %.300q", q.Get("error"), q.Get("error_description"))
	case q.Get("code") == "":
		a.err = fail.New(fail.Unauthorized, "the provider's answer has no code")
	default:
		a.code = q.Get("code")
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	text := "Signed in: naupegos continues in the terminal, and you can close this page.\n"
	if a.err != nil {
		text = "Not signed in: see the terminal.\n"
	}
	_, _ = w.Write([]byte(text)) // the browser may have left, but its answer arrived
	select {
	case b.once <- a:
	default: // the user reloaded the page
	}
}

// wait serves until the browser returns.
func (b *comeBack) wait(ctx context.Context, l net.Listener) (string, error) {
	s := &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, MaxHeaderBytes: 32 << 10}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	defer func() {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second) // let the browser get its page
		defer cancel()
		if s.Shutdown(bounded) != nil {
			_ = s.Close()
		}
	}()
	select {
	case a := <-b.once:
		return a.code, a.err
	case err := <-served:
		return "", fail.Wrap(fail.Internal, err, "listen for the browser")
	case <-ctx.Done():
		if ctx.Err() == context.DeadlineExceeded {
			return "", fail.New(fail.Unauthorized, "no browser has come back in time").Do("begin again, and give more --timeout")
		}
		return "", fail.Wrap(fail.Interrupted, ctx.Err(), "wait for the browser")
	}
}
