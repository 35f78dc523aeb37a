package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// pinging is how long the store and the health of the parts may take together.
const pinging = 5 * time.Second

// pingEvery is how long an answer of the store counts, however many clients ask.
const pingEvery = time.Second

// pinger asks the store on behalf of all clients of /healthz. Clients that leave do not end the question.
type pinger struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// ask returns the store's answer, which is pingEvery old at most, and logs when it changes.
func (p *pinger) ask(ctx context.Context, ping func(context.Context) error, log *slog.Logger) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.at.IsZero() && time.Since(p.at) < pingEvery {
		return p.err
	}
	before := p.err
	p.err, p.at = ping(ctx), time.Now()
	switch {
	case p.err != nil && (before == nil || before.Error() != p.err.Error()):
		log.Error("the store does not answer", "error", p.err.Error())
	case p.err == nil && before != nil:
		log.Info("the store answers again")
	}
	return p.err
}

// health answers GET /healthz in the older system's format: {"global": …, "db": …, PART: {THING: …}}, with status 503 unless everything is well.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), pinging)
	defer cancel()
	global, all := true, map[string]any{}
	if s.c.Ping != nil {
		err := s.pinger.ask(ctx, s.c.Ping, s.c.Log)
		all["db"], global = err == nil, err == nil
	}
	for _, p := range s.c.Parts {
		if p.Health == nil {
			continue
		}
		things := p.Health(ctx)
		for _, well := range things {
			global = global && well
		}
		all[p.Name] = things
	}
	all["global"] = global
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !global {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(all) // fails if the client is gone
}
