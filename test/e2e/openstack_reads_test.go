//go:build e2e

package e2e_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// TestReadAgain: reads that the cloud answers with 500 are repeated twice; refused requests and changes are not.
func TestReadAgain(t *testing.T) {
	for _, c := range []struct {
		name, method string
		answers      []int // in turn; the last one repeats
		calls        int32
		ok           bool
	}{
		{"a list amid a deletion", http.MethodGet, []int{500, 200}, 2, true},
		{"trouble that stays", http.MethodGet, []int{500}, 3, false},
		{"a refusal", http.MethodGet, []int{403}, 1, false},
		{"a change", http.MethodDelete, []int{500, 204}, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.answers[min(int(calls.Add(1)), len(c.answers))-1])
			}))
			defer server.Close()
			p := &gophercloud.ProviderClient{RetryFunc: readAgain}
			_, err := p.Request(t.Context(), c.method, server.URL, &gophercloud.RequestOpts{})
			if ok := err == nil; ok != c.ok || calls.Load() != c.calls {
				t.Errorf("%d calls, %v; want %d", calls.Load(), err, c.calls)
			}
		})
	}
}
