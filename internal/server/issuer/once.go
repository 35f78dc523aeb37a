package issuer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/naupegos/naupegos/internal/fail"
)

// answering is the time limit for signing in at the issuer. The browser forgets its question then; who keeps it anyway is refused.
const answering = 10 * time.Minute

// mostNonces bounds the nonces of completed sign-ins that are remembered.
const mostNonces = 2_000

// newNonce returns a nonce that starts with the time. The issuer returns it in the ID token, so that no browser can make it younger.
func newNonce(now time.Time) string {
	return strconv.FormatInt(now.Unix(), 36) + "." + oauth2.GenerateVerifier()
}

// Shared is where the servers on one store remember nonces; store.Secrets is one.
type Shared interface {
	PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error)
	Names(ctx context.Context) ([]string, error)
	Delete(ctx context.Context, name string) error
}

// Share makes the issuer refuse a sign-in that another server on the store has completed. Call it before the issuer is used.
func (i *Issuer) Share(s Shared) { i.shared = s }

// sharedPrefix + the time in base 36 + the hash of a nonce is its name in Shared.
const sharedPrefix = "sign-in/"

// takeShared refuses a nonce that another server has taken, and forgets nonces that are too old to be taken again.
func (i *Issuer) takeShared(ctx context.Context, nonce string, now time.Time) error {
	if i.shared == nil {
		return nil
	}
	all, err := i.shared.Names(ctx)
	if err != nil {
		return err
	}
	for _, name := range all {
		rest, ours := strings.CutPrefix(name, sharedPrefix)
		seconds, _, _ := strings.Cut(rest, ".")
		unix, err := strconv.ParseInt(seconds, 36, 64)
		if !ours || err == nil && now.Sub(time.Unix(unix, 0)) <= answering+2*skew { // another server's clock may be behind
			continue
		}
		if err := i.shared.Delete(ctx, name); err != nil {
			return err
		}
	}
	seconds, _, _ := strings.Cut(nonce, ".")
	sum, mine := sha256.Sum256([]byte(nonce)), oauth2.GenerateVerifier()
	is, err := i.shared.PutIfAbsent(ctx, sharedPrefix+seconds+"."+hex.EncodeToString(sum[:]), []byte(mine))
	if err == nil && string(is) != mine {
		err = completed()
	}
	return err
}

func completed() error {
	return fail.New(fail.Unauthorized, "this sign-in is completed already").Do("sign in again")
}

// once remembers the nonces of completed sign-ins while their questions can be answered.
type once struct {
	mu   sync.Mutex
	used map[string]time.Time // when the question was asked
}

// take refuses a nonce that was used, or that is too old to tell.
func (o *once) take(nonce string, now time.Time) error {
	seconds, _, _ := strings.Cut(nonce, ".")
	unix, err := strconv.ParseInt(seconds, 36, 64)
	asked := time.Unix(unix, 0)
	if age := now.Sub(asked); err != nil || age > answering || age < -skew {
		return fail.New(fail.Unauthorized, "this sign-in began more than %s ago", answering).Do("sign in again")
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, is := o.used[nonce]; is {
		return completed()
	}
	if o.used == nil {
		o.used = map[string]time.Time{}
	}
	oldest := nonce
	for n, at := range o.used {
		if now.Sub(at) > answering {
			delete(o.used, n)
		} else if oldest == nonce || at.Before(o.used[oldest]) {
			oldest = n
		}
	}
	if len(o.used) >= mostNonces { // each is of a user who has just signed in
		delete(o.used, oldest)
	}
	o.used[nonce] = asked
	return nil
}
