package boot

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/peer"
)

// Options configure a Handler.
type Options struct {
	// Catalogs are searched for a machine's group. The most specific group wins, and among equal ones that of the first catalog. The group's
	// profile is searched in the group's own catalog, then in the others; templates only in the profile's catalog.
	Catalogs []*Catalog
	// Assets opens kernels and images below /assets/. Nil: none are served.
	Assets Assets
	// Fallback returns the ID of the profile for a machine without a group, given its labels. Empty: none. Nil: no fallback.
	Fallback func(ctx context.Context, labels map[string]string) string
	// Log gets the reason for each request without an answer. Nil: nothing is logged.
	Log *slog.Logger
}

// Handler returns the boot endpoints. They need no authentication, because their answers are not secret.
func Handler(o Options) http.Handler {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &server{o, peer.NewLog(o.Log)}
	mux := http.NewServeMux()
	mux.HandleFunc("/", home)
	mux.HandleFunc("/boot.ipxe", inspect)
	mux.HandleFunc("/boot.ipxe.0", inspect)
	mux.HandleFunc("/ipxe", s.script(func(p *profile) *page { return p.ipxe }))
	mux.HandleFunc("/grub", s.script(func(p *profile) *page { return p.grub }))
	mux.HandleFunc("/ignition", s.text(ignitionKind, func(p *profile) string { return p.IgnitionID }))
	mux.HandleFunc("/cloud", s.text(cloudKind, func(p *profile) string { return p.CloudID }))
	mux.HandleFunc("/generic", s.text(genericKind, func(p *profile) string { return p.GenericID }))
	mux.HandleFunc("/metadata", s.metadata)
	if o.Assets != nil {
		mux.HandleFunc("/assets/", s.asset)
	}
	return mux
}

type server struct {
	Options
	strangers *peer.Log
}

// match is the result for a machine, with the machine's labels.
type match struct {
	labels  map[string]string
	group   *member
	profile *profile
	catalog *Catalog // of the profile
}

// find returns the group, profile and labels of a machine. Missing parts are nil.
func (s *server) find(r *http.Request) match {
	m := match{labels: Labels(r.URL.Query())}
	var own *Catalog
	for _, c := range s.Catalogs {
		if g := c.find(m.labels); g != nil && (m.group == nil || g.before(m.group) && g.order != m.group.order) {
			m.group, own = g, c
		}
	}
	if m.group == nil {
		return s.fallback(r.Context(), m)
	}
	if m.profile, m.catalog = own.profile(m.group.group.Profile), own; m.profile != nil {
		return m
	}
	return s.lookUp(m)
}

// lookUp finds the profile of a machine's group in any catalog.
func (s *server) lookUp(m match) match {
	for _, c := range s.Catalogs {
		if m.profile, m.catalog = c.profile(m.group.group.Profile), c; m.profile != nil {
			return m
		}
	}
	return m
}

// fallback finds the profile for a machine without a group.
func (s *server) fallback(ctx context.Context, m match) match {
	if s.Fallback == nil {
		return m
	}
	name := s.Fallback(ctx, m.labels)
	if name == "" {
		return m
	}
	m.group = newMember("", Group{ID: name, Profile: name})
	return s.lookUp(m)
}

// vars returns the variables for templates.
func (m match) vars(r *http.Request) map[string]any {
	vars := maps.Clone(m.group.vars)
	vars["request"] = map[string]any{"query": m.labels, "raw_query": r.URL.RawQuery}
	return vars
}

func home(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/" {
		http.NotFound(w, r)
		return
	}
	write(w, homePage.kind, homePage.body)
}

var (
	homePage    = newPage([]byte("matchbox\n")) // clients look for this word
	inspectPage = newPage([]byte(Inspect))
)

func inspect(w http.ResponseWriter, _ *http.Request) { write(w, inspectPage.kind, inspectPage.body) }

// script serves a script of the machine's profile.
func (s *server) script(of func(*profile) *page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := s.find(r)
		if m.profile == nil {
			s.absent(w, r, m, nil)
			return
		}
		p := of(m.profile)
		if p == nil {
			s.absent(w, r, m, fmt.Errorf("its profile %s has no boot settings", m.profile.ID))
			return
		}
		write(w, p.kind, p.body)
	}
}

// text serves a template that the machine's profile names, rendered for the machine.
func (s *server) text(k kind, of func(*profile) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := s.find(r)
		if m.profile == nil {
			s.absent(w, r, m, nil)
			return
		}
		t := m.catalog.text(k, of(m.profile))
		if t == nil {
			s.absent(w, r, m, fmt.Errorf("there is no usable %s/%s, which its profile %s names", k, of(m.profile), m.profile.ID))
			return
		}
		body, err := t.render(m.vars(r))
		if err != nil {
			s.absent(w, r, m, fmt.Errorf("render %s/%s: %w", k, of(m.profile), err))
			return
		}
		if k == ignitionKind {
			write(w, "application/json", body)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(body))
	}
}

func (s *server) metadata(w http.ResponseWriter, r *http.Request) {
	m := s.find(r)
	if m.group == nil {
		s.absent(w, r, m, nil)
		return
	}
	var b bytes.Buffer
	environment(&b, "", m.vars(r))
	write(w, "plain/text", b.Bytes()) // not text/plain: matchbox sends this, and clients may compare it
}

// absent answers that there is nothing for this machine, and logs the reason.
func (s *server) absent(w http.ResponseWriter, r *http.Request, m match, why error) {
	switch {
	case why != nil:
	case m.group == nil:
		why = fmt.Errorf("no group is for a machine of these labels")
	default:
		why = fmt.Errorf("there is no profile %q, which its group %s names", m.group.group.Profile, m.group.group.ID)
	}
	s.strangers.Warn(r.Context(), "a machine was not answered", r.RemoteAddr, slog.String("path", r.URL.Path),
		slog.String("labels", listed(m.labels)), slog.String("reason", why.Error()))
	http.NotFound(w, r)
}

// listed returns a machine's labels for one line of a log.
func listed(labels map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		if b.Len() > peer.Long { // the log truncates the rest
			break
		}
		fmt.Fprintf(&b, "%s=%s ", k, labels[k])
	}
	return strings.TrimSpace(b.String())
}

func write(w http.ResponseWriter, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the client may have disconnected
}
