package issuer

import (
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestQuestionIsAnsweredOnce: a question that a browser kept signs nobody in again, although the issuer takes the same code twice; nor does one that is too
// old, whatever the browser says.
func TestQuestionIsAnsweredOnce(t *testing.T) {
	i := newIDP(t)
	b := i.believed("")
	_, q, err := b.Ask(t.Context())
	testkit.Must(t, err)
	i.claims = i.good(q)
	came := url.Values{"code": {"c"}}
	i.claims["nonce"] = "another"
	if _, err := b.Answer(t.Context(), q, came); err == nil {
		t.Error("the answer to another question is believed")
	}
	i.claims["nonce"] = q.Nonce // what failed can be repeated
	testkit.Value(b.Answer(t.Context(), q, came))(t)
	_, err = b.Answer(t.Context(), q, came)
	testkit.Fails(t, err, fail.Unauthorized, "completed already", "sign in again")
	q.Nonce = newNonce(time.Now().Add(-answering - time.Second))
	i.claims["nonce"] = q.Nonce
	_, err = b.Answer(t.Context(), q, came)
	testkit.Fails(t, err, fail.Unauthorized, "began more than 10m0s ago")
}

// TestNoncesAreBounded: nonces are forgotten when their time is over, and the oldest one when there are too many.
func TestNoncesAreBounded(t *testing.T) {
	var o once
	now := time.Now()
	first := newNonce(now.Add(-time.Minute))
	testkit.Must(t, o.take(first, now))
	for range mostNonces {
		testkit.Must(t, o.take(newNonce(now), now))
	}
	if _, is := o.used[first]; is || len(o.used) != mostNonces {
		t.Errorf("%d nonces are remembered, and the oldest: %v", len(o.used), is)
	}
	now = now.Add(answering + time.Second)
	testkit.Must(t, o.take(newNonce(now), now))
	if len(o.used) != 1 {
		t.Errorf("%d nonces are remembered", len(o.used))
	}
	for _, nonce := range []string{"", ".", "x", "zzzzzzzzzzzzzzzz.a"} {
		testkit.Fails(t, o.take(nonce, now), fail.Unauthorized)
	}
}

// TestQuestionIsAnsweredOnceByServers: of two servers on one store, only one completes a sign-in, also after a restart, and the store forgets old nonces.
func TestQuestionIsAnsweredOnceByServers(t *testing.T) {
	ctx, i := t.Context(), newIDP(t)
	st := testkit.Value(store.Open(ctx, store.Location{Dir: t.TempDir()}))(t)
	defer st.Close()
	servers := []*Issuer{i.believed(""), i.believed("")}
	for _, s := range servers {
		s.Share(st.ServerSecrets())
	}
	testkit.Must(t, st.ServerSecrets().Put(ctx, "x", []byte("stays")))
	old := testkit.Value(strconv.ParseInt(strings.Split(newNonce(time.Now().Add(-time.Hour)), ".")[0], 36, 64))(t)
	testkit.Must(t, st.ServerSecrets().Put(ctx, sharedPrefix+strconv.FormatInt(old, 36)+".0", []byte("old")))
	_, q, err := servers[0].Ask(ctx)
	testkit.Must(t, err)
	i.claims = i.good(q)
	came := url.Values{"code": {"c"}}
	testkit.Value(servers[0].Answer(ctx, q, came))(t)
	for range 2 {
		_, err = servers[1].Answer(ctx, q, came)
		testkit.Fails(t, err, fail.Unauthorized, "completed already", "sign in again")
		servers[1].once = once{} // as after a restart
	}
	if names := testkit.Value(st.ServerSecrets().Names(ctx))(t); len(names) != 2 || !strings.HasPrefix(names[0], sharedPrefix) || names[1] != "x" {
		t.Errorf("the store has %q", names)
	}
}
