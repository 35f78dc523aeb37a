package api

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestDescriptionIsMadeOnce: requests for the API's description, and for its page, make it once: strangers may send them.
func TestDescriptionIsMadeOnce(t *testing.T) {
	a := newAPI(t.Context(), Config{Log: slog.New(slog.DiscardHandler)})
	description, page := testkit.Value(a.description())(t), testkit.Value(a.page())(t)
	a.huma.OpenAPI().Info.Title = "Another"
	for range 2 {
		for path, want := range map[string][]byte{"/openapi.json": description, "/apidocs": page} {
			w := httptest.NewRecorder()
			if path == "/apidocs" {
				a.docs(w, httptest.NewRequest("GET", path, nil))
			} else {
				a.openAPI(w, httptest.NewRequest("GET", path, nil))
			}
			if w.Code != 200 || w.Body.String() != string(want) {
				t.Errorf("%s was made again", path)
			}
		}
	}
}
