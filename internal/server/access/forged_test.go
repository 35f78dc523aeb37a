package access

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// forgery is a store with forged rows.
type forgery struct{ store.Access }

func (forgery) Token(context.Context, string) (*store.Token, error) {
	return nil, fail.Wrap(fail.Refused, store.ErrForged, "row 7f of table tokens")
}

func (forgery) Session(context.Context, string) (*store.Session, error) {
	return nil, fail.Wrap(fail.Refused, store.ErrForged, "row 7f of table sessions")
}

// TestForgedRows: the answer to a forged token or session is that to any invalid one; the log names the row.
func TestForgedRows(t *testing.T) {
	var log bytes.Buffer
	g := NewGate(forgery{}, slog.New(slog.NewTextHandler(&log, nil)))
	_, err := g.token(t.Context(), "Bearer "+prefix+"7f_half")
	testkit.Fails(t, err, fail.Unauthorized, "valid")
	if strings.Contains(err.Error(), "7f") || !strings.Contains(log.String(), "row 7f of table tokens") {
		t.Errorf("%v; the log has %s", err, log.String())
	}
}
