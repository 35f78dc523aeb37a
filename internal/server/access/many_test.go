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

// TestTenThousandTokens: listing 10,000 tokens and authenticating by one of them is fast.
func TestTenThousandTokens(t *testing.T) {
	st := testkit.Value(store.View(t.Context(), store.Location{Dir: t.TempDir()}))(t) // in memory, to leave out the disk
	defer st.Close()
	var token string
	for i := range 10_000 {
		secret, _, err := NewToken(t.Context(), st, fmt.Sprint("token ", i), server.Read, "", time.Hour)
		testkit.Must(t, err)
		if i == 5000 {
			token = secret
		}
	}
	began := time.Now()
	if all := testkit.Value(st.Tokens(t.Context()))(t); len(all) != 10_000 {
		t.Fatalf("listed %d tokens", len(all))
	}
	listing := time.Since(began)
	g := NewGate(st, slog.New(slog.DiscardHandler))
	began = time.Now()
	for range 100 {
		if w, _ := request(g, own, "GET", "/", token, func(http.ResponseWriter, *http.Request) {}); w.Code != 200 {
			t.Fatalf("the token: %d", w.Code)
		}
	}
	knowing := time.Since(began) / 100
	t.Logf("10,000 tokens: listed in %s, one request authenticated in %s", listing.Round(time.Millisecond), knowing.Round(time.Microsecond))
	if listing > 5*time.Second || knowing > 100*time.Millisecond {
		t.Error("too slow")
	}
}
