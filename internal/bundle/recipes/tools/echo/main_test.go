package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type fixed map[string][]string

func (f fixed) LookupHost(_ context.Context, host string) ([]string, error) {
	if a, ok := f[host]; ok {
		return append([]string(nil), a...), nil
	}
	return nil, errors.New("no such host")
}

func TestHandler(t *testing.T) {
	h := handler("pod-1", fixed{"web": {"10.0.0.2", "10.0.0.1"}})
	for _, c := range []struct {
		path string
		code int
		body string
	}{
		{"/", 200, "pod-1\n"},
		{"/healthz", 200, "ok\n"},
		{"/dns?name=web", 200, "10.0.0.1\n10.0.0.2\n"},
		{"/dns?name=other", 502, "no such host\n"},
		{"/dns", 400, "name the host to look up: /dns?name=HOST\n"},
		{"/else", 404, "404 page not found\n"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", c.path, nil))
		if w.Code != c.code || w.Body.String() != c.body {
			t.Errorf("%s: got %d %q, want %d %q", c.path, w.Code, w.Body, c.code, c.body)
		}
	}
}

func TestGetAsksUntilAnswered(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked++; asked < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "pod-1")
	}))
	defer s.Close()
	var out strings.Builder
	if err := get(context.Background(), s.URL, &out); err != nil || out.String() != "pod-1" || asked != 3 {
		t.Errorf("got %q after %d requests: %v", out.String(), asked, err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := get(ended, s.URL, &out); err == nil {
		t.Error("get went on after its context ended")
	}
}
