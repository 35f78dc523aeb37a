package answer

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

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

// TestLate: the error of a request without time for another attempt says why the attempt before failed, not how client-go counts.
func TestLate(t *testing.T) {
	const words = "client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"
	for said, want := range map[string]string{words: "ask: no answer in time", words + " - error from a previous attempt: connection refused": "ask: connection refused"} {
		if got := Error(t.Context(), errors.New(said), "ask").Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestImmutable lists the API's words about fields that never change.
func TestImmutable(t *testing.T) {
	for said, want := range map[string]bool{
		"field is immutable": true, "updates to parameters are forbidden.": true, "cannot change roleRef": true, "may not change once set": true, "may not be changed in an update.": true, "pod updates may not change fields other than `spec.containers[*].image`": true, "must be positive": false,
	} {
		err := apierrors.NewInvalid(schema.GroupKind{Kind: "StorageClass"}, "slow", field.ErrorList{field.Invalid(field.NewPath("x"), nil, said)})
		if got := Immutable(err); got != want {
			t.Errorf("%q: %t", said, got)
		}
	}
}
