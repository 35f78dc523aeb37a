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

// live streams server-sent events about the page in ?of=: "change" when the page's data changes (at first in comparison with ?was=, see
// since), "here" when it does not, and "end" when the page will not change any more or does not exist. To find out, it reads the page's data
// again and compares the digests.
func (p *Pages) live(w http.ResponseWriter, r *http.Request) {
	who, err := asker(p, r, p.c.Gate.Still)
	if err != nil {
		unknown(p, r, err)
		http.Error(w, "no valid session", http.StatusUnauthorized)
		return
	}
	if err := p.c.Gate.Stay(r, *who); err != nil {
		http.Error(w, "too many pages are open", http.StatusTooManyRequests)
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
		who, err := asker(p, r, p.c.Gate.Still)
		if err != nil { // e.g. the session was ended meanwhile
			return
		}
		now, going := p.look(r, of, who)
		event := "event: here\ndata: {}\n\n" // for proxies that close silent connections, and for browsers, which notice a dead one by the silence
		switch {
		case !going:
			event = "event: end\ndata: {}\n\n"
		case before != "" && now != "" && before != now:
			event = "event: change\ndata: {}\n\n"
		}
		if now != "" { // data that can't be read, as in an outage, is no change
			before = now
		}
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

// look returns the digest of a page's data, and whether the page may still change. If the data can't be read, the digest is empty.
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
				going = false // a defect of the page; it does not renew itself
			}
		})
	}
	ask := r.Clone(r.Context())
	ask.URL, ask.RequestURI, ask.Pattern = of, of.RequestURI(), ""
	mux.ServeHTTP(nowhere{http.Header{}}, ask)
	return data, going
}

// digest returns the digest of a page's data.
func digest(data any) (string, error) {
	raw, err := json.Marshal(data)
	return fmt.Sprintf("%x", sha256.Sum256(raw)), err
}

// since adds the digest of the shown data to the address of a page's stream, so that changes before the stream begins are reported, too.
func since(stream string, data any) string {
	if was, err := digest(data); err == nil {
		return stream + "&was=" + was
	}
	return stream
}

// nowhere is an http.ResponseWriter that discards the answer.
type nowhere struct{ header http.Header }

// Header implements http.ResponseWriter.
func (n nowhere) Header() http.Header { return n.header }

// Write implements http.ResponseWriter.
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

// WriteHeader implements http.ResponseWriter.
func (nowhere) WriteHeader(int) {}

// liveOf returns the address of a page's stream.
func liveOf(r *http.Request) string {
	return "/ui/live?of=" + url.QueryEscape(r.URL.RequestURI())
}
