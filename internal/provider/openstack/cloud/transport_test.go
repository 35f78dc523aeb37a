package cloud

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestTransport counts the attempts of a call for each kind of answer.
func TestTransport(t *testing.T) {
	for name, tc := range map[string]struct {
		method, path string
		status       int
		retryAfter   string
		cut          bool
		want         int
	}{
		"read, 500":             {"GET", "/x", 500, "", false, 3},
		"read, cut":             {"GET", "/x", 0, "", true, 3},
		"read, 404":             {"GET", "/x", 404, "", false, 1},
		"delete, 503":           {"DELETE", "/x", 503, "", false, 3},
		"create, 500":           {"POST", "/x", 500, "", false, 1},
		"create, cut":           {"POST", "/x", 0, "", true, 1},
		"create, 503":           {"POST", "/x", 503, "", false, 1},
		"create, 503 and when":  {"POST", "/x", 503, "0", false, 3},
		"create, 429":           {"POST", "/x", 429, "", false, 3},
		"quota of Cinder":       {"POST", "/x", 413, "0", false, 1},
		"too many of Cinder":    {"POST", "/x", 413, "1", false, 3},
		"login, 500":            {"POST", "/v3/auth/tokens", 500, "", false, 3},
		"change, 500":           {"PUT", "/x", 500, "", false, 1},
		"answer is a date, 429": {"GET", "/x", 429, time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), false, 3},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				calls++
				if body, _ := io.ReadAll(r.Body); r.Method == "POST" && string(body) != "hello" {
					t.Errorf("attempt %d has body %q", calls, body)
				}
				if tc.cut { // in the middle of the answer
					w.Header().Set("Content-Length", "100")
					w.WriteHeader(200)
					_, _ = io.WriteString(w, "half")
					return
				}
				if tc.retryAfter != "" {
					w.Header().Set("Retry-After", tc.retryAfter)
				}
				w.WriteHeader(tc.status)
			}))
			defer srv.Close()
			c := http.Client{Transport: &transport{
				next: http.DefaultTransport, retry: Retry{Attempts: 3, Pause: time.Millisecond, Max: 2 * time.Millisecond}, limit: time.Minute, slots: make(chan struct{}, 1),
			}}
			req, err := http.NewRequestWithContext(t.Context(), tc.method, srv.URL+tc.path, strings.NewReader("hello"))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if (err != nil) != tc.cut {
				t.Errorf("error %v", err)
			}
			if err == nil {
				resp.Body.Close()
			}
			if calls != tc.want {
				t.Errorf("%d calls, %d are right", calls, tc.want)
			}
		})
	}
}

// TestEndlessAnswer: an answer without an end is an error, before it fills memory.
func TestEndlessAnswer(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for block, err := make([]byte, 1<<20), error(nil); err == nil; {
			_, err = w.Write(block)
		}
	}))
	defer srv.Close()
	c := http.Client{Transport: &transport{next: http.DefaultTransport, retry: Retry{Attempts: 1}, limit: time.Minute, slots: make(chan struct{}, 1)}}
	_, err := c.Get(srv.URL)
	testkit.Fails(t, err, fail.Refused, "larger than 65536 KiB")
}

// TestFaultText finds each service's own words.
func TestFaultText(t *testing.T) {
	for body, want := range map[string]string{
		`{"badRequest": {"code": 400, "message": "Block Device Mapping is Invalid."}}`:              "Block Device Mapping is Invalid.",
		`{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded", "detail": ""}}`:        "Quota exceeded",
		`{"error": {"code": 401, "message": "requires authentication", "title": "Unauthorized"}}`:   "requires authentication",
		`{"faultcode": "Client", "faultstring": "Load Balancer x is immutable", "debuginfo": null}`: "Load Balancer x is immutable",
		"<html><head><title>503</title></head><body><h1>No server\nis available</h1></body></html>": "No server is available",
		"": "",
	} {
		if got := faultText([]byte(body)); got != want {
			t.Errorf("%s: %q", body, got)
		}
	}
}
