package access

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/peer"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestManyAddresses: wrong tokens from very many addresses take limited memory and time, and do not reset the count of one address.
func TestManyAddresses(t *testing.T) {
	l, began := newLimits(), time.Now()
	for i := range 100_000 {
		l.failed("", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if took := time.Since(began); l.wrong.Len() > most || took > 10*time.Second {
		t.Errorf("the table has %d addresses after %s", l.wrong.Len(), took)
	}
	for i := range burstWrong {
		l.failed("", fmt.Sprintf("2001:db8:0:1::%x", i))
	}
	if l.mayTry("", "2001:db8:0:1:ffff::1") || !l.mayTry("", "2001:db8:0:2::1") {
		t.Error("IPv6 clients do not count by their /64")
	}
	for i := range most - 1 {
		l.failed("", fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255))
	}
	if l.mayTry("", "2001:db8:0:1::1") {
		t.Error("an address was dropped before the table was full")
	}
}

// TestUnfinishedRequests: one operator's unfinished requests are bounded, and so are their bodies; other operators are served meanwhile.
func TestUnfinishedRequests(t *testing.T) {
	g, st := gate(t)
	token := func(cluster string) string {
		text, _, err := NewToken(t.Context(), st, "ann", server.Operate, cluster, 0)
		testkit.Must(t, err)
		return text
	}
	mine, other, whole := token("demo"), token("demo"), token("")
	release, inside := make(chan struct{}), make(chan error)
	var all sync.WaitGroup
	hold := func(token string, body io.Reader) {
		all.Go(func() {
			r := httptest.NewRequest("POST", "/", body)
			r.Header.Set("Authorization", "Bearer "+token)
			g.Guard(own, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				inside <- err
				<-release
			})).ServeHTTP(httptest.NewRecorder(), r)
		})
	}
	served := func(token string) int {
		w, _ := request(g, own, "GET", "/", token, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(200) })
		return w.Code
	}
	for range mostInsideOf {
		hold(mine, nil)
		testkit.Must(t, <-inside)
	}
	if mine, other, whole := served(mine), served(other), served(whole); mine != 429 || other != 200 || whole != 200 {
		t.Errorf("with %d unfinished requests: %d; another's: %d and %d", mostInsideOf, mine, other, whole)
	}
	for range 8 {
		hold(other, bytes.NewReader(make([]byte, mostHeld/8)))
		testkit.Must(t, <-inside)
	}
	hold(other, strings.NewReader("x"))
	testkit.Fails(t, <-inside, fail.NotReady, "too many large requests")
	close(release)
	all.Wait()
	if mine, other := served(mine), served(other); mine != 200 || other != 200 || len(g.limits.inside) != 0 {
		t.Errorf("afterwards: %d and %d, and %d operators are counted", mine, other, len(g.limits.inside))
	}
}

// TestChangesOfATenant: an operator of one cluster can't fill the audit log with changes, and goes on reading. Other operators are not held up.
func TestChangesOfATenant(t *testing.T) {
	l := newLimits()
	tenant, other, whole := Operator{ID: "a", Cluster: "demo"}, Operator{ID: "b", Cluster: "demo"}, Operator{ID: "c"}
	began, allowed := time.Now(), 0
	for range 3 * burstChange {
		l.tokens = peer.NewRates(perToken, burstToken, most) // the rate of all requests is tested elsewhere
		if l.mayAsk(tenant, true) {
			allowed++
		}
		if !l.mayAsk(whole, true) {
			t.Fatal("an operator of all clusters is held up")
		}
	}
	if within := burstChange + 1 + int(perChange*time.Since(began).Seconds()); allowed < burstChange || allowed > within {
		t.Errorf("%d changes were allowed, not %d to %d", allowed, burstChange, within)
	}
	if !l.mayAsk(tenant, false) || !l.mayAsk(other, true) {
		t.Error("reading, or another operator, is held up")
	}
}
