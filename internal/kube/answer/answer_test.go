package answer

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestKindOfBrokenConnections lists how client-go tells of a server that went away: waiting may help with all of them.
func TestKindOfBrokenConnections(t *testing.T) {
	for name, err := range map[string]error{
		"end of file":      fmt.Errorf("get: %w", io.EOF),
		"cut short":        io.ErrUnexpectedEOF,
		"no time to retry": errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline - error from a previous attempt: EOF"),
		"refused":          &url.Error{Op: "Get", URL: "https://192.0.2.1", Err: errors.New("connection refused")},
	} {
		if got := Kind(t.Context(), err); got != fail.Unreachable {
			t.Errorf("%s: %v, want unreachable", name, got)
		}
	}
	if got := Kind(t.Context(), errors.New("something else")); got != fail.Internal {
		t.Errorf("an unknown error is %v", got)
	}
}
