package web

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
)

// live streams server-sent events about the page that ?of= names: "change" each time it shows other data than before, at first than the page itself
// did (?was=, see since), "end" where nothing will change any more, or there is no such page. What a page shows is all that it is about: its data is
// asked for again and compared.
func (p *Pages) live(w http.ResponseWriter, r *http.Request) {
	if _, err := p.operator(r); err != nil {
		http.Error(w, "nobody has signed in", http.StatusUnauthorized)
		return
	}
	of, err := url.Parse(local(r.URL.Query().Get("of")))
	if err != nil {
		http.Error(w, "there is no such page", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	control := http.NewResponseController(w)
	tick := time.NewTicker(p.watched)
	defer tick.Stop()
	before := r.URL.Query().Get("was") // empty: not known
	for {
		who, err := p.operator(r)
		if err != nil { // the token was revoked meanwhile
			return
		}
		now, going := p.look(r, of, who)
		event := ": still here\n\n" // keeps what is between from closing the connection
		switch {
		case !going:
			event = "event: end\ndata: {}\n\n"
		case before != "" && before != now:
			event = "event: change\ndata: {}\n\n"
		}
		before = now
		if _, err := fmt.Fprint(w, event); err != nil {
			return
		}
		if err := control.Flush(); err != nil || !going {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		case <-p.c.Done:
			return
		}
	}
}

// look returns the digest of what a page shows, and whether it may change. While the data can't be had, nothing has changed.
func (p *Pages) look(r *http.Request, of *url.URL, who *access.Operator) (data string, going bool) {
	mux := http.NewServeMux()
	for pattern, of := range p.pages() {
		mux.HandleFunc("GET "+pattern, func(_ http.ResponseWriter, r *http.Request) {
			v, err := of.look(r, who)
			if err != nil {
				going = fail.KindOf(err) != fail.NotFound && fail.KindOf(err) != fail.Refused
				return
			}
			going = v.Live != ""
			if data, err = digest(v.Data); err != nil {
				going = false // a defect of the page: it is not renewed
			}
		})
	}
	ask := r.Clone(r.Context())
	ask.URL, ask.RequestURI, ask.Pattern = of, of.RequestURI(), ""
	mux.ServeHTTP(nowhere{http.Header{}}, ask)
	return data, going
}

// digest is of what a page shows.
func digest(data any) (string, error) {
	raw, err := json.Marshal(data)
	return fmt.Sprintf("%x", sha256.Sum256(raw)), err
}

// since is where the stream of a page is that shows this data: what changes until its reader has the stream is a change, too.
func since(stream string, data any) string {
	if was, err := digest(data); err == nil {
		return stream + "&was=" + was
	}
	return stream
}

// nowhere is an answer that nobody gets.
type nowhere struct{ header http.Header }

// Header implements http.ResponseWriter.
func (n nowhere) Header() http.Header { return n.header }

// Write implements http.ResponseWriter.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}

// liveOf is where the stream of a page is.
func liveOf(r *http.Request) string {
	return "/ui/live?of=" + url.QueryEscape(r.URL.RequestURI())
}
