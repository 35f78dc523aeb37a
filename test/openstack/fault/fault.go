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

// Cut is the time at which a connection is closed without an answer.
type Cut int

// Values of Cut.
const (
	Never  Cut = iota
	Before     // the service does not get the call
	After      // the service has executed the call and has answered
)

// Fault is the treatment of a call. The zero value does nothing. Delay comes first, then Cut or Status.
type Fault struct {
	Status     int           // the proxy answers with it and does not forward the call; 0: the service answers
	RetryAfter time.Duration // sent with Status, in whole seconds; 0: not sent
	Body       string        // sent with Status; empty: an error in OpenStack's form
	Delay      time.Duration // before anything else
	Cut        Cut
}

// rule is a fault for matching calls.
type rule struct {
	match func(Call) bool
	times int
	fault Fault
}

// FailAt applies f to the n-th call since the last Reset; 1 is the first.
func (p *Proxy) FailAt(n int, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at[n] = f
}

// FailWhen applies f to the next matching calls, at most times of them. match sees the call before its Status is known.
func (p *Proxy) FailWhen(match func(Call) bool, times int, f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, rule{match, times, f})
}

// wait delays a call. It returns false if the client disconnects in the meantime.
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

// answer writes the fault's status in OpenStack's form.
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
	_, _ = w.Write([]byte(body)) // the client may have disconnected
}

// hangUp resets the client's connection, as a failing router would.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // this also closes the connection
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}

// carried is the context of a forwarded call.
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
