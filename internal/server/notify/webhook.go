package notify

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// Secrets is the part of a store's secrets that webhooks need.
type Secrets interface {
	Get(ctx context.Context, name string) ([]byte, error)
	Put(ctx context.Context, name string, value []byte) error
	PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error)
	Delete(ctx context.Context, name string) error
	Names(ctx context.Context) ([]string, error)
}

// Webhook is a receiver without its URL, which is a secret: everyone who knows it can write into the channel.
type Webhook struct {
	Name     string    `json:"name"`
	Format   string    `json:"format"`             // slack, teams or json
	Host     string    `json:"host"`               // of the URL, with its port
	Clusters []string  `json:"clusters,omitempty"` // names or patterns of clusters; none: all, and events of the server itself
	Events   []string  `json:"events,omitempty"`   // none: all
	Changed  time.Time `json:"changed"`
}

// sealed is a webhook as the store keeps it, encrypted.
type sealed struct {
	Webhook
	ID  string `json:"id"` // new each time: a webhook that was replaced gets all that needs a person now
	URL string `json:"url"`
	CA  []byte `json:"ca,omitempty"` // PEM
}

// record has the outcomes of a webhook's messages; servers keep it beside the webhook.
type record struct {
	ID        string               `json:"id"`                  // of the webhook
	Announced map[string]announced `json:"announced,omitempty"` // by the key of a need; a need that is over is absent
	Sent      time.Time            `json:"sent,omitzero"`       // the last success
	Failed    time.Time            `json:"failed,omitzero"`
	Failure   string               `json:"failure,omitempty"`
	Failing   time.Time            `json:"failing,omitzero"` // when the failures began; zero: the last delivery was a success
}

// announced is the last announcement about a need.
type announced struct {
	State string `json:"state"`
	Level int    `json:"level,omitempty"`
}

// Listed is a webhook with the outcomes of its messages.
type Listed struct {
	Webhook
	Sent    time.Time `json:"sent,omitzero"`     // when the last message was delivered
	Failed  time.Time `json:"failed,omitzero"`   // when a delivery failed last
	Failure string    `json:"failure,omitempty"` // why
	Failing bool      `json:"failing,omitempty"` // the last delivery failed
}

// The names of webhooks' secrets. No webhook's name begins with the rest of recordPrefix.
const (
	prefix       = "webhook/"
	recordPrefix = "webhook-record/"
)

// Limits of what an administrator may store.
const (
	mostWebhooks = 32
	maxURL       = 4 << 10
	maxCA        = 64 << 10
)

// Webhooks are the webhooks of a store.
type Webhooks struct{ in Secrets }

// NewWebhooks returns the webhooks among the server's secrets of a store.
func NewWebhooks(in Secrets) Webhooks { return Webhooks{in} }

// Add stores a webhook with its URL, and the certificates of the only authority that may have issued the receiver's certificate (PEM; none: the host's
// authorities). An existing webhook of the same name is a conflict unless replace is set.
func (w Webhooks) Add(ctx context.Context, h Webhook, address, ca []byte, replace bool) (Webhook, error) {
	u, err := parseURL(address)
	if err == nil {
		err = cmp.Or(CheckName(h.Name), h.check(ca))
	}
	if err != nil {
		return h, err
	}
	all, err := w.names(ctx)
	if err != nil {
		return h, err
	}
	if len(all) >= mostWebhooks && !slices.Contains(all, h.Name) {
		return h, fail.New(fail.Refused, "there are %d webhooks already", len(all)).Do("remove one: naupegos server webhook remove NAME")
	}
	h.Host, h.Changed = u.Host, time.Now().UTC().Truncate(time.Second)
	raw, err := json.Marshal(sealed{Webhook: h, ID: newID(), URL: u.String(), CA: ca})
	if err != nil {
		return h, fail.Wrap(fail.Internal, err, "encode webhook %s", h.Name)
	}
	if replace {
		return h, w.in.Put(ctx, prefix+h.Name, raw)
	}
	kept, err := w.in.PutIfAbsent(ctx, prefix+h.Name, raw)
	if err == nil && string(kept) != string(raw) {
		err = fail.New(fail.Conflict, "webhook %s already exists", h.Name).Do("--replace replaces it")
	}
	return h, err
}

func newID() string {
	id := make([]byte, 8)
	_, _ = rand.Read(id) // never fails: crypto/rand ends the program instead
	return hex.EncodeToString(id)
}

// parseURL reads the URL of a receiver. Its errors do not repeat it.
func parseURL(text []byte) (*url.URL, error) {
	address := strings.TrimSpace(strings.TrimPrefix(string(text), "\ufeff"))
	wrong := fail.New(fail.Invalid, "the webhook's URL").Do("give a file, or standard input, with the URL alone: https://HOST/PATH")
	switch {
	case address == "":
		wrong.What += " is empty"
		return nil, wrong
	case len(address) > maxURL:
		wrong.What += " is longer than 4 KiB"
		return nil, wrong
	case strings.ContainsAny(address, " \t\r\n\"'<>"):
		wrong.What += " contains spaces, quotes or several lines"
		return nil, wrong
	}
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		wrong.What += " can't be read as https://HOST/PATH"
		return nil, wrong // cause withheld: it repeats the URL
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		wrong.What += " does not begin with https://"
		return nil, wrong.Do("write https://HOST/PATH; http:// is possible only to this host itself, as http://127.0.0.1:PORT/PATH")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// CheckName refuses a name that no webhook can have. It does not repeat it: it may be the URL, in the wrong place.
func CheckName(name string) error {
	if !v1alpha1.IsCredentialName(name) {
		return fail.New(fail.Invalid, "the name of a webhook has up to 63 lower-case letters, digits, dots and dashes").Do("choose a name such as ops; the URL comes from --url-file")
	}
	return nil
}

// check refuses what is wrong with a webhook, except its name and URL.
func (h *Webhook) check(ca []byte) error {
	switch {
	case formats[h.Format].render == nil:
		return fail.New(fail.Invalid, "--format %q", h.Format).Do("choose slack, teams or json")
	case len(ca) > maxCA || ca != nil && !x509.NewCertPool().AppendCertsFromPEM(ca):
		return fail.New(fail.Invalid, "the file of --ca-file has no certificate").Do("give the certificate of the authority that issued the receiver's certificate, as PEM")
	}
	for _, p := range h.Clusters {
		if _, err := path.Match(p, ""); err != nil || p == "" || strings.Trim(p, "abcdefghijklmnopqrstuvwxyz0123456789-*?[]^") != "" {
			return fail.New(fail.Invalid, "--clusters %q is not a name or a pattern", p).Do(`write prod-a, or "prod-*"`)
		}
	}
	for _, e := range h.Events {
		switch {
		case !slices.Contains(Events(), e):
			return fail.New(fail.Invalid, "--events %q", e).Do("choose from %s", strings.Join(Events(), ", "))
		case slices.Contains(ofServer, e) && len(h.Clusters) > 0:
			return fail.New(fail.Invalid, "--events %s is about no cluster, and --clusters names some", e).Do("add a webhook of its own for it, without --clusters")
		}
	}
	return nil
}

// wants reports whether a receiver gets announcements about a need.
func (h *Webhook) wants(n *need) bool {
	if len(h.Events) > 0 && !slices.Contains(h.Events, n.event) {
		return false
	}
	return len(h.Clusters) == 0 || n.cluster != "" && v1alpha1.MatchesAny(h.Clusters, n.cluster)
}

// Remove deletes a webhook: fail.NotFound if it does not exist.
func (w Webhooks) Remove(ctx context.Context, name string) error {
	if _, err := w.in.Get(ctx, prefix+name); err != nil && fail.KindOf(err) != fail.Internal { // a damaged one can be removed
		return unknown(name, err)
	}
	if err := w.in.Delete(ctx, prefix+name); err != nil {
		return err
	}
	return w.in.Delete(ctx, recordPrefix+name)
}

func unknown(name string, err error) error {
	if fail.KindOf(err) == fail.NotFound {
		return fail.New(fail.NotFound, "there is no webhook %s", name).Do("naupegos server webhook list shows them")
	}
	return err
}

// names returns the names of all webhooks, sorted.
func (w Webhooks) names(ctx context.Context) (all []string, err error) {
	secrets, err := w.in.Names(ctx)
	for _, n := range secrets {
		if name, ok := strings.CutPrefix(n, prefix); ok {
			all = append(all, name)
		}
	}
	return all, err
}

// List returns all webhooks by name, without their URLs.
func (w Webhooks) List(ctx context.Context) ([]Listed, error) {
	names, err := w.names(ctx)
	if err != nil {
		return nil, err
	}
	all := []Listed{}
	for _, name := range names {
		s, err := w.get(ctx, name)
		if fail.KindOf(err) == fail.NotFound {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		r, err := w.record(ctx, s)
		if err != nil {
			return nil, err
		}
		all = append(all, Listed{s.Webhook, r.Sent, r.Failed, r.Failure, !r.Failing.IsZero()})
	}
	return all, nil
}

func (w Webhooks) get(ctx context.Context, name string) (*sealed, error) {
	raw, err := w.in.Get(ctx, prefix+name)
	if err != nil {
		return nil, unknown(name, err)
	}
	s := &sealed{}
	if json.Unmarshal(raw, s) != nil || s.Name != name { // the cause might quote the URL
		return nil, fail.New(fail.Internal, "webhook %s is damaged", name).Do("naupegos server webhook add %s --replace", name)
	}
	return s, nil
}

// record returns the outcomes of a webhook's messages. A webhook that was replaced begins anew.
func (w Webhooks) record(ctx context.Context, s *sealed) (r record, err error) {
	raw, err := w.in.Get(ctx, recordPrefix+s.Name)
	switch {
	case fail.KindOf(err) == fail.NotFound:
		err = nil
	case err != nil:
		return r, err
	case json.Unmarshal(raw, &r) != nil || r.ID != s.ID:
		r = record{}
	}
	r.ID = s.ID
	if r.Announced == nil {
		r.Announced = map[string]announced{}
	}
	return r, err
}

// keep stores the outcomes of a webhook's messages.
func (w Webhooks) keep(ctx context.Context, name string, r *record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "encode the record of webhook %s", name)
	}
	return w.in.Put(ctx, recordPrefix+name, raw)
}

// Test sends a test message to a webhook, once, and returns the receiver's answer.
func (w Webhooks) Test(ctx context.Context, name string) (Webhook, string, error) {
	s, err := w.get(ctx, name)
	if err != nil {
		return Webhook{Name: name}, "", err
	}
	m := Message{Version: 1, Event: "test", State: open, Time: time.Now().UTC().Truncate(time.Second), Summary: "This is a test of webhook " + name + ".",
		Hint: "Nothing needs to be done."}
	said, _, err := s.post(ctx, &m)
	return s.Webhook, said, err
}
