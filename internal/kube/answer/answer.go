// Package answer gives errors of Kubernetes clients the kinds of package fail, and polls for conditions that can't be watched.
package answer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/naupegos/naupegos/internal/fail"
)

// Error gives an error of client-go a kind and says what was attempted.
func Error(ctx context.Context, err error, format string, args ...any) *fail.Error {
	kind := Kind(ctx, err)
	if outOfTime(err) {
		err = late{err}
	}
	return fail.Wrap(kind, err, "%s", fmt.Sprintf(format, args...))
}

// late is client-go's error for a request without time for another attempt, in plain words: the error of the attempt before, if there was one.
type late struct{ error }

func (l late) Unwrap() error { return l.error }

func (l late) Error() string { return cmp.Or(l.before(), "no answer in time") }

// before returns the error of the attempt before, or "".
func (l late) before() string {
	_, before, _ := strings.Cut(l.error.Error(), "error from a previous attempt: ")
	return before
}

// Kind returns the kind of an error of client-go.
func Kind(ctx context.Context, err error) fail.Kind {
	var netErr net.Error
	var urlErr *url.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fail.Interrupted
	case fail.KindOf(err) != fail.Internal && !errors.Is(err, context.DeadlineExceeded):
		return fail.KindOf(err)
	case apierrors.IsNotFound(err):
		return fail.NotFound
	case apierrors.HasStatusCause(err, "NamespaceTerminating"):
		return fail.NotReady
	case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err):
		return fail.Unauthorized
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fail.Conflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err):
		return fail.Invalid
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err), apierrors.IsTooManyRequests(err),
		apierrors.IsServiceUnavailable(err), apierrors.IsInternalError(err), meta.IsNoMatchError(err):
		return fail.NotReady
	case strings.Contains(err.Error(), "x509: ") || strings.Contains(err.Error(), "tls: "):
		return fail.Unauthorized
	case errors.As(err, &netErr), errors.As(err, &urlErr), errors.Is(err, context.DeadlineExceeded),
		errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), outOfTime(err):
		return fail.Unreachable
	}
	return fail.Internal
}

// outOfTime reports whether client-go gave up because its next attempt could not begin before the deadline; it has no error
// value for that.
func outOfTime(err error) bool {
	return strings.Contains(err.Error(), "client rate limiter Wait returned an error")
}

// cutOff reports whether a request failed only because ctx ended, or was about to end.
func cutOff(ctx context.Context, err error) bool {
	if l := (late{}); errors.As(err, &l) {
		return l.before() == ""
	}
	return err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err())
}

// MissingNamespace reports whether a request failed because its namespace does not exist.
func MissingNamespace(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && apierrors.IsNotFound(err) && status.Status().Details != nil && status.Status().Details.Kind == "namespaces"
}

// Immutable reports whether the API refused to change a field that never changes.
func Immutable(err error) bool {
	return apierrors.IsInvalid(err) && slices.ContainsFunc([]string{"is immutable", "are forbidden", "cannot change roleRef", "may not change once set", "may not be changed in an update", "may not change fields other than"}, func(said string) bool { return strings.Contains(err.Error(), said) })
}

// Poll calls ask until it returns nil or an error that waiting can't mend, or ctx ends; then Poll returns the last reason to wait with the kind
// of ctx's end. A request that ctx cut off tells no reason, unless it was the first. It is for conditions that can't be watched.
func Poll(ctx context.Context, every time.Duration, ask func(ctx context.Context) error) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var reason error
	for {
		err := ask(ctx)
		if reason != nil && cutOff(ctx, err) {
			err = reason
		}
		if err == nil || (!fail.Waitable(err) && ctx.Err() == nil) {
			return err
		}
		reason = err
		select {
		case <-ctx.Done():
			return Ended(ctx, err)
		case <-tick.C:
		}
	}
}

// Ended returns the error of a wait that ctx ended: the last reason, with the kind of the context's end.
func Ended(ctx context.Context, last error) error {
	kind := fail.KindOf(ctx.Err())
	if last == nil {
		return fail.Wrap(kind, ctx.Err(), "wait")
	}
	return fail.Wrap(kind, last, "gave up waiting")
}
