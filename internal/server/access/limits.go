package access

import (
	"io"
	"net/http"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
)

// Rate limits of operators and addresses.
const (
	perToken, burstToken = 50, 200 // requests a second
	perChange            = 1       // changes a second by an operator of one cluster: the audit log keeps each for years
	burstChange          = 300
	burstWrong           = 10     // wrong tokens from one address at once
	perWrong             = 0.2    // wrong tokens a second after that
	most                 = 10_000 // size of each table
)

// Bounds of an operator's unfinished requests: plans and streams last long, and bodies are held until the answer.
const (
	mostInside   = 256
	mostInsideOf = 64 // of an operator of one cluster
	mostHeld     = 32 << 20
)

// limits holds the rates of valid tokens, and of wrong tokens by address, and the unfinished requests of operators.
type limits struct {
	tokens, wrong, changes *peer.Rates

	mu     sync.Mutex
	inside map[string]*inside
}

// inside is an operator's unfinished requests.
type inside struct {
	requests int
	bytes    int64 // of their bodies
}

func newLimits() *limits {
	return &limits{tokens: peer.NewRates(perToken, burstToken, most), wrong: peer.NewRates(perWrong, burstWrong, most), changes: peer.NewRates(perChange, burstChange, most),
		inside: map[string]*inside{}}
}

// mayAsk counts a request of an operator.
func (l *limits) mayAsk(who Operator, change bool) bool {
	return l.tokens.Allow(who.ID) && (!change || who.Cluster == "" || l.changes.Allow(who.ID))
}

// mayTry reports whether an address may try once more. Each kind of attempt counts by itself.
func (l *limits) mayTry(kind, from string) bool { return l.wrong.Would(kind + peer.Key(from)) }

// failed counts a failed attempt of an address.
func (l *limits) failed(kind, from string) { l.wrong.Allow(kind + peer.Key(from)) }

// guest is an unfinished request of an operator.
type guest struct {
	l     *limits
	id    string
	bytes int64
	once  sync.Once
}

// enter counts a request of an operator until leave is called. It returns nil if the operator has too many.
func (l *limits) enter(who Operator) *guest {
	bound := mostInside
	if who.Cluster != "" {
		bound = mostInsideOf
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.inside[who.ID]
	if is == nil {
		is = &inside{}
		l.inside[who.ID] = is
	}
	if is.requests >= bound {
		return nil
	}
	is.requests++
	return &guest{l: l, id: who.ID}
}

// leave ends the count of the request and its body.
func (g *guest) leave() {
	g.once.Do(func() {
		g.l.mu.Lock()
		defer g.l.mu.Unlock()
		is := g.l.inside[g.id]
		is.bytes -= g.bytes
		if is.requests--; is.requests == 0 {
			delete(g.l.inside, g.id)
		}
	})
}

// hold counts bytes of the request's body, and reports whether the operator may send them.
func (g *guest) hold(n int) bool {
	g.l.mu.Lock()
	defer g.l.mu.Unlock()
	is := g.l.inside[g.id]
	if is == nil || is.bytes+int64(n) > mostHeld {
		return false
	}
	is.bytes += int64(n)
	g.bytes += int64(n)
	return true
}

// held is a body that counts for its operator.
type held struct {
	io.ReadCloser
	by *guest
}

// Read implements io.Reader.
func (h held) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n > 0 && !h.by.hold(n) {
		return 0, fail.New(fail.NotReady, "too many large requests at once with this token").Do("wait for answers before you ask more")
	}
	return n, err
}

// admit counts a request of an operator, and its body.
func (g *Gate) admit(r *http.Request, who Operator) (*guest, error) {
	in := g.limits.enter(who)
	if in == nil {
		return nil, often{fail.New(fail.NotReady, "too many unfinished requests with this token").Do("wait for answers, or close streams, before you ask more")}
	}
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = held{r.Body, in}
	}
	return in, nil
}
