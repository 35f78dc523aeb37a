package runner

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
)

// TestRebootAsked uses Nova's precision: microseconds for reboots, whole seconds for the change times of servers.
func TestRebootAsked(t *testing.T) {
	actions := ""
	nova := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"instanceActions": [{"action": "create", "start_time": "2026-01-01T12:00:01.100000"}%s]}`, actions)
	}))
	defer nova.Close()
	r := &Runner{
		cloud: &cloud{compute: &gophercloud.ServiceClient{ProviderClient: &gophercloud.ProviderClient{}, Endpoint: nova.URL + "/"}},
		seen:  map[string]lastSeen{}, troubles: map[string]string{}, log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	at := func(second int) time.Time { return time.Date(2026, 1, 1, 12, 0, second, 0, time.UTC) }
	reboot := func(when string) string {
		return `, {"action": "reboot", "start_time": "2026-01-01T12:00:` + when + `"}`
	}
	for _, c := range []struct {
		what    string
		changed time.Time
		actions string
		want    bool
	}{
		{"seen first, rebooted in that second", at(10), reboot("10.400000"), false},
		{"renamed", at(20), reboot("10.400000"), false},
		{"rebooted within a second", at(30), reboot("30.600000"), true},
		{"not changed since", at(30), reboot("30.600000"), false},
		{"renamed after it", at(40), reboot("30.600000"), false},
		{"rebooted slowly", at(60), reboot("51.000000"), true},
	} {
		actions = c.actions
		if got := r.rebootAsked(t.Context(), server{ID: "one", Updated: c.changed}); got != c.want {
			t.Errorf("%s: a reboot asked: %v", c.what, got)
		}
	}
}
