package gatewaycheck

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestAsk(t *testing.T) {
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-r.Context().Done()
		}
		w.WriteHeader(status)
	}))
	defer s.Close()
	testkit.Must(t, Ask(t.Context(), s.URL, time.Minute))
	status = http.StatusServiceUnavailable
	if err := Ask(t.Context(), s.URL, time.Minute); fail.KindOf(err) != fail.NotReady {
		t.Errorf("503: %v", err)
	}
	if err := Ask(t.Context(), s.URL+"/slow", 20*time.Millisecond); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("slow: %v", err)
	}
	if err := Ask(t.Context(), "http://127.0.0.1:1", time.Second); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("without a gateway: %v", err)
	}
}
