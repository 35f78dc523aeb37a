package server

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// pinging is how long the store and the health of the parts may take together.
const pinging = 5 * time.Second

// health answers GET /healthz in the older system's format: {"global": …, "db": …, PART: {THING: …}}, with status 503 unless everything is well.
func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), pinging)
	defer cancel()
	global, all := true, map[string]any{}
	if s.c.Ping != nil {
		err := s.c.Ping(ctx)
		if err != nil {
			s.c.Log.Error("the store does not answer", "error", err.Error())
		}
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
