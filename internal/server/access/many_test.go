package access

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTenThousandTokens: 10,000 tokens are listed, and a request with one of them is authenticated as fast as with a single token.
func TestTenThousandTokens(t *testing.T) {
	st := testkit.Value(store.View(t.Context(), store.Location{Dir: t.TempDir()}))(t) // in memory, to leave out the disk
	defer st.Close()
	var token string
	quickest := func() time.Duration { // of 100 requests, whatever else the host does
		g, least := NewGate(st, slog.New(slog.DiscardHandler)), time.Hour
		for range 100 {
			began := time.Now()
			if w, _ := request(g, own, "GET", "/", token, func(http.ResponseWriter, *http.Request) {}); w.Code != 200 {
				t.Fatalf("the token: %d", w.Code)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	var few time.Duration
	for i := range 10_000 {
		secret, _, err := NewToken(t.Context(), st, fmt.Sprint("token ", i), server.Read, "", time.Hour)
		testkit.Must(t, err)
		if i == 0 {
			token = secret
			few = quickest()
		}
	}
	if all := testkit.Value(st.Tokens(t.Context()))(t); len(all) != 10_000 {
		t.Fatalf("listed %d tokens", len(all))
	}
	many := quickest()
	t.Logf("one request is authenticated in %s among 10,000 tokens, and in %s with one", many.Round(time.Microsecond), few.Round(time.Microsecond))
	if many > 20*few+time.Millisecond {
		t.Error("the time grows with the number of tokens")
	}
}
