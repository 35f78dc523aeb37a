package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Cut says when a connection is closed without an answer.
type Cut int

// The moments of a cut.
const (
	Never  Cut = iota
	Before     // the service has not heard of the call
	After      // the service has carried it out and has answered
)

// Fault is what happens to a call. The zero value lets it pass. Delay comes first, then Cut or Status.
type Fault struct {
	Status     int           // answered in the service's place, which does not hear of the call; 0: the service answers
	RetryAfter time.Duration // told with Status, in whole seconds; 0: not told
	Body       string        // with Status; empty: an error as OpenStack writes them
	Delay      time.Duration // before anything else
	Cut        Cut
}

// rule is a fault for calls that match.
type rule struct {
	match func(Call) bool
	times int
	fault Fault
}

// FailAt makes the n-th call since the last Reset (1 is the first) meet f.
func (p *Proxy) FailAt(n int, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[n] = f
}

// FailWhen makes the next calls that match, as many as times says, meet f. match is called with Status still 0.
func (p *Proxy) FailWhen(match func(Call) bool, times int, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rule{match, times, f})
}

// wait delays a call; false when the client has gone meanwhile.
func (f Fault) wait(ctx context.Context) bool {
	if f.Delay == 0 {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(f.Delay):
		return true
	}
}

// answer writes the fault's status as OpenStack would.
func (f Fault) answer(w http.ResponseWriter) {
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter.Round(time.Second)/time.Second)))
	}
	body := f.Body
	if body == "" {
		text, err := json.Marshal(map[string]any{"error": map[string]any{
			"code": f.Status, "title": http.StatusText(f.Status), "message": fmt.Sprintf("injected by the fault proxy: %s", cmp.Or(http.StatusText(f.Status), "no such status")),
		}})
		if err == nil {
			body = string(text)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.Status)
	_, _ = w.Write([]byte(body)) // the client may have gone
}

// hangUp closes the client's connection with a reset, as a router in between would when it dies.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // closes it too
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

// carried goes with a forwarded call.
type carried struct {
	n    int
	call Call
	cut  bool
}

type carriedKey struct{}

func withCarried(ctx context.Context, c carried) context.Context {
	return context.WithValue(ctx, carriedKey{}, c)
}

func carriedIn(ctx context.Context) carried {
	c, _ := ctx.Value(carriedKey{}).(carried)
	return c
}
