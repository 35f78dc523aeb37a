package kube

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestAnswersAreBounded: an answer without an end, or one that would become far larger in memory, ends in an error, even if it is compressed.
func TestAnswersAreBounded(t *testing.T) {
	most := bounds{bytes: 4 << 20, values: 100_000, objects: 1000}
	answers := map[string]struct {
		begin, part string
		fails       bool
	}{
		"/plain":            {"", strings.Repeat(" ", 4096), true},
		"/compressed":       {"", strings.Repeat(" ", 4096), true},
		"/small":            {"small", "", false},
		"/empty-objects":    {`{"items":[{}`, strings.Repeat(",{}", 10), true},
		"/spaced-objects":   {`{"items":[{}`, strings.Repeat(" ,\n{ } ", 10), true},
		"/first-objects":    {`{"items":[[{}]`, strings.Repeat(",[{}]", 10), true},
		"/empty-strings":    {`{"items":[""`, strings.Repeat(`,""`, 1000), true},
		"/fields":           {`{"a":{"f":{}`, strings.Repeat(`,"f":{}`, 1000), true},
		"/objects-in-field": {`{"a":{"f":{}`, strings.Repeat(`,"field":{"key":"value"}`, 10), false},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var to io.Writer = w
		if r.URL.Path != "/plain" {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			defer z.Close()
			to = z
		}
		a := answers[r.URL.Path]
		_, err := io.WriteString(to, a.begin)
		for n := 0; err == nil && n < 2000 && a.part != ""; n++ {
			_, err = io.WriteString(to, a.part)
		}
	}))
	defer srv.Close()
	c := &http.Client{Transport: bounded{http.DefaultTransport, most}}
	for path, a := range answers {
		resp := testkit.Value(c.Get(srv.URL + path))(t)
		n, err := io.Copy(io.Discard, resp.Body)
		testkit.Must(t, resp.Body.Close())
		if (fail.KindOf(err) == fail.Refused) != a.fails || n > most.bytes {
			t.Errorf("%s: %d bytes, %v", path, n, err)
		}
	}
}

// TestErrorsAreBounded: an answer that is an error holds less than others, because each attempt's error is stored.
func TestErrorsAreBounded(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/error" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, strings.Repeat(" ", maxError+1))
	}))
	defer srv.Close()
	c := &http.Client{Transport: bounded{http.DefaultTransport, maxAnswer}}
	for path, fails := range map[string]bool{"/error": true, "/": false} {
		resp := testkit.Value(c.Get(srv.URL + path))(t)
		_, err := io.Copy(io.Discard, resp.Body)
		testkit.Must(t, resp.Body.Close())
		if (fail.KindOf(err) == fail.Refused) != fails {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOnlyJSON: requests do not ask for binary encodings, whose values can't be counted, and such answers are refused.
func TestOnlyJSON(t *testing.T) {
	var asked, answer string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Header.Get("Accept")
		w.Header().Set("Content-Type", answer)
		_, _ = io.WriteString(w, "{}")
	}))
	defer srv.Close()
	c := &http.Client{Transport: bounded{http.DefaultTransport, maxAnswer}}
	const metadata = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
	for accept, want := range map[string]string{
		"application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," + metadata: metadata,
		"application/cbor,application/json": "application/json", "application/json": "application/json",
	} {
		for kind, fails := range map[string]bool{
			"application/json": false, "text/plain": false, "application/vnd.kubernetes.protobuf": true, "Application/VND.Kubernetes.Protobuf;stream=watch": true, "application/cbor-seq": true,
		} {
			answer = kind
			r := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL, nil))(t)
			r.Header.Set("Accept", accept)
			resp, err := c.Do(r)
			if err == nil {
				testkit.Must(t, resp.Body.Close())
			}
			if (fail.KindOf(err) == fail.Refused) != fails || asked != want {
				t.Errorf("%s for %s: asked for %q, %v", kind, accept, asked, err)
			}
		}
	}
}

// TestWatchesAreBounded: a watch that sends ever more objects, or one without an end, is ended; the waiter lists again and keeps nothing of the
// watch.
func TestWatchesAreBounded(t *testing.T) {
	most := bounds{bytes: 1 << 20, values: 10_000, objects: 1000}
	for name, c := range map[string]struct{ begin, part string }{
		"an event without an end": {`{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"`, strings.Repeat("a", 4096)},
		"events without an end":   {"", `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"%d","namespace":"n"}}}` + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			lists, told := 0, atomic.Int64{}
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Query().Get("watch") == "" {
					if lists++; lists == 2 {
						cancel()
					}
					_, _ = io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`)
					return
				}
				_, err := io.WriteString(w, c.begin)
				for n := 0; err == nil && told.Load() < 64<<20; n++ {
					part := c.part
					if c.begin == "" {
						part = fmt.Sprintf(part, n)
					}
					_, err = io.WriteString(w, part)
					told.Add(int64(len(part)))
				}
			}))
			defer srv.Close()
			kubeconfig := `{"apiVersion":"v1","kind":"Config","clusters":[{"name":"c","cluster":{"server":"` + srv.URL + `"}}],"contexts":[{"name":"c","context":{"cluster":"c"}}],"current-context":"c"}`
			client := testkit.Value(newClient([]byte(kubeconfig), ClientOptions{}, most))(t)
			defer client.Close()
			kept := 0
			_ = follow(ctx, follower{
				list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
					return client.set.CoreV1().Pods("n").List(ctx, o)
				},
				watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					return client.watch.CoreV1().Pods("n").Watch(ctx, o)
				},
			}, func(all map[string]runtime.Object) (bool, error) {
				kept = max(kept, len(all))
				return false, nil
			})
			if n := told.Load(); n > 8*most.bytes || lists != 2 || kept > int(most.values) {
				t.Errorf("the server told %d bytes in a watch and %d lists; %d objects were kept", n, lists, kept)
			}
		})
	}
}
