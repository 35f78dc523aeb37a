package answer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestPollNamesTheReason: a request that the deadline cut off does not hide what the wait was for.
func TestPollNamesTheReason(t *testing.T) {
	missing := fail.New(fail.NotReady, "pod a is not gone yet")
	for name, c := range map[string]struct {
		last error // of the attempt after one that was not ready
		want string
	}{
		"no time to begin":          {errors.New("client rate limiter Wait returned an error: context deadline exceeded"), "pod a is not gone yet"},
		"no time to try again":      {errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline"), "pod a is not gone yet"},
		"no time after an error":    {errors.New("client rate limiter Wait returned an error: rate: Wait(n=1) would exceed context deadline - error from a previous attempt: EOF"), "EOF"},
		"cut off":                   {&url.Error{Op: "Get", URL: "https://192.0.2.1", Err: context.DeadlineExceeded}, "pod a is not gone yet"},
		"another reason at the end": {fail.New(fail.NotReady, "pod b is not gone yet"), "pod b is not gone yet"},
		"refused just before":       {&url.Error{Op: "Get", URL: "https://192.0.2.1", Err: errors.New("connection refused")}, "connection refused"},
		"no permission at the end":  {apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no role")), "no role"},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			calls := 0
			err := Poll(ctx, time.Second, func(ctx context.Context) error {
				if calls++; calls == 1 {
					return missing
				}
				<-ctx.Done()
				return Error(ctx, c.last, "list the pods")
			})
			if err == nil || !strings.Contains(err.Error(), c.want) || fail.KindOf(err) != fail.NotReady {
				t.Errorf("%s: %v (%v), want %q", name, err, fail.KindOf(err), c.want)
			}
		})
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
