// Package link signs the user of this host in to the web pages with a link that works once.
//
// The link's key is in the fragment of the address, which browsers send to no server. The page sends it in the body of a request, so that it gets
// into no log and no history. The package does not depend on the pages.
package link

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

// Lifetimes of a link, and of the session that it begins.
const (
	Valid = 5 * time.Minute
	Life  = 12 * time.Hour
)

// Path is the page that a link opens.
const Path = "/ui/open"

// Door is an access.Issuer that signs in one user of this host, once, by a link.
type Door struct {
	user, issuer string
	binding      []byte // key of the MAC in Browser
	mu           sync.Mutex
	key          [sha256.Size]byte
	until        time.Time // expiry of the link; zero once the link was used
}

// New returns a door for a user, and the key of the door's link.
func New(user string, now time.Time) (d *Door, key string) {
	d = &Door{user: user, issuer: "naupegos ui " + random(), binding: []byte(random()), until: now.Add(Valid)}
	key = random()
	d.key = sha256.Sum256([]byte(key))
	return d, key
}

// random returns 256 random bits as text.
func random() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead
	return base64.RawURLEncoding.EncodeToString(b)
}

// Browser returns a new value, a nonce with a MAC, that binds a browser which opened the link to its sign-in.
func (d *Door) Browser() string {
	nonce := random()
	return nonce + "." + d.sign(nonce)
}

// Bound reports whether Browser returned this value.
func (d *Door) Bound(browser string) bool {
	nonce, mac, _ := strings.Cut(browser, ".")
	return nonce != "" && hmac.Equal([]byte(mac), []byte(d.sign(nonce)))
}

func (d *Door) sign(nonce string) string {
	m := hmac.New(sha256.New, d.binding)
	m.Write([]byte(nonce))
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// Enter exchanges the key of the link for a sign-in. A key works once: any second request with it fails.
func (d *Door) Enter(key string, now time.Time) (in access.SignedIn, err error) {
	sum := sha256.Sum256([]byte(key))
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case subtle.ConstantTimeCompare(sum[:], d.key[:]) != 1:
		return in, fail.New(fail.Unauthorized, "this is not the link that naupegos ui printed last").Do("open that link, or run naupegos ui again")
	case d.until.IsZero():
		return in, fail.New(fail.Unauthorized, "the link was used already: it works once").Do("run naupegos ui again; if you did not use it, end the sessions: naupegos server session list")
	case now.After(d.until):
		return in, fail.New(fail.Unauthorized, "the link has expired: it works for %s", Valid).Do("run naupegos ui again")
	}
	d.until = time.Time{}
	return access.SignedIn{Operator: d.operator(), Issuer: d.issuer, Subject: d.user, Name: d.user, Life: Life}, nil
}

// Who returns the user's name for jobs and the audit. Other operators' names end in a parenthesis, so none of them equals it.
func (d *Door) Who() string { return d.user + " by naupegos ui" }

func (d *Door) operator() access.Operator {
	return access.Operator{Name: d.Who(), ID: "local " + d.user, Role: server.Admin, Via: access.ViaLink}
}

// Operator implements access.Issuer. It refuses all tokens.
func (d *Door) Operator(context.Context, string) (access.Operator, error) {
	return access.Operator{}, fail.New(fail.Unauthorized, "this server accepts no tokens").Do("naupegos server accepts them")
}

// Again implements access.Issuer: a session is valid as long as the process that began it.
func (d *Door) Again(x *store.Session) (access.Operator, error) {
	if x.Issuer != d.issuer {
		return access.Operator{}, fail.New(fail.Unauthorized, "the session has ended").Do("run naupegos ui again")
	}
	return d.operator(), nil
}

// End ends the sessions that the link began.
func (d *Door) End(ctx context.Context, st store.Access) error {
	all, err := st.Sessions(ctx)
	if err != nil {
		return err
	}
	for _, x := range all {
		if x.Issuer != d.issuer {
			continue
		}
		if err := st.EndSession(ctx, x.ID); err != nil && fail.KindOf(err) != fail.NotFound {
			return err
		}
	}
	return nil
}
