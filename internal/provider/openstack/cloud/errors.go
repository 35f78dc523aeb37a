package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/fail"
)

// Wrap turns a cloud's refusal into an error with its kind, the attempted action and the cloud's own words. nil stays nil.
func Wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	kind, cause, hint := Classify(err)
	e := fail.Wrap(kind, cause, format, args...)
	if hint != "" {
		e = e.Do("%s", hint)
	}
	return e
}

// Fault is a cloud's error answer, in its own words.
type Fault struct {
	Status int
	Text   string
}

// Error returns the cloud's text with its status.
func (f *Fault) Error() string {
	status := http.StatusText(f.Status)
	if f.Text == "" {
		return "the cloud answers " + status
	}
	return f.Text + " (" + status + ")"
}

// Classify returns the kind of a call's error, the cause to display, and the remedy.
func Classify(err error) (kind fail.Kind, cause error, hint string) { //nolint:revive,staticcheck // the cause is a result, no failure of this call
	var known *fail.Error
	if errors.As(err, &known) {
		return fail.KindOf(err), err, ""
	}
	if e := new(gophercloud.ErrUnableToReauthenticate); errors.As(err, &e) {
		return Classify(e.ErrReauth)
	}
	if e := new(gophercloud.ErrErrorAfterReauthentication); errors.As(err, &e) {
		return Classify(e.ErrOriginal)
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		f := &Fault{Status: code.Actual, Text: faultText(code.Body)}
		kind, hint = kindOfFault(f)
		return kind, f, hint
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return fail.Unreachable, bare(err), ""
		}
		return fail.KindOf(err), err, ""
	}
	if hint, yes := untrusted(err); yes {
		return fail.Refused, bare(err), hint
	}
	var dial *net.OpError
	var cut *url.Error
	if errors.As(err, &dial) || errors.As(err, &cut) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fail.Unreachable, bare(err), ""
	}
	return fail.Internal, err, ""
}

// bare removes method and address from a URL error: an address contains meaningless IDs, and perhaps secrets.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return errors.New(hostOf(u.URL) + ": " + u.Err.Error())
	}
	return err
}

func hostOf(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Host != "" {
		return u.Host
	}
	return "the cloud"
}

func kindOfFault(f *Fault) (fail.Kind, string) {
	if kind, hint, ok := hinted(f); ok {
		return kind, hint
	}
	switch {
	case f.Status == http.StatusUnauthorized:
		return fail.Unauthorized, ""
	case f.Status == http.StatusRequestEntityTooLarge:
		return fail.Refused, quotaHint
	case f.Status == http.StatusNotFound:
		return fail.NotFound, ""
	case f.Status == http.StatusNotAcceptable: // Nova's answer to an unsupported microversion
		return fail.Refused, "the service is too old: OpenStack Train (2019) or later is needed"
	case f.Status == http.StatusConflict && strings.Contains(f.Text, "immutable"):
		return fail.NotReady, ""
	case f.Status == http.StatusConflict:
		return fail.Conflict, ""
	case f.Status == http.StatusTooManyRequests:
		return fail.NotReady, ""
	case f.Status >= http.StatusInternalServerError:
		return fail.Unreachable, ""
	case f.Status >= http.StatusBadRequest:
		return fail.Refused, ""
	}
	return fail.Internal, ""
}

// faultText finds the readable message in an answer: every service wraps it differently.
func faultText(body []byte) string {
	var any any
	if json.Unmarshal(body, &any) == nil {
		if s := findText(any); s != "" {
			return OneLine(s)
		}
	}
	return OneLine(markup.ReplaceAllString(string(body), " "))
}

var markup = regexp.MustCompile(`(?s)<head>.*?</head>|<[^>]*>`)

func findText(v any) string {
	m, ok := v.(map[string]any)
	if !ok {
		return ""
	}
	for _, k := range []string{"message", "faultstring", "NeutronError"} {
		if s, ok := m[k].(string); ok && s != "" {
			return s
		}
	}
	for _, inner := range m {
		if s := findText(inner); s != "" {
			return s
		}
	}
	return ""
}

// OneLine puts a cloud's message on one line, of at most 500 bytes.
func OneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 500 {
		s = s[:500] + "…"
	}
	return s
}

// Status returns the HTTP status of a refusal; 0 for any other err.
func Status(err error) int {
	var f *Fault
	if errors.As(err, &f) {
		return f.Status
	}
	var code gophercloud.ErrUnexpectedResponseCode
	if errors.As(err, &code) {
		return code.Actual
	}
	return 0
}

// Gone reports whether err says that a resource does not exist.
func Gone(err error) bool { return Status(err) == http.StatusNotFound }

// Interrupted reports whether err comes from a cancelled context or a passed deadline.
func Interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// UnlessGone returns nil if err says that the resource does not exist, else err.
func UnlessGone(err error) error {
	if Gone(err) {
		return nil
	}
	return err
}

// NotOne returns the error for a name that does not identify exactly one resource.
func NotOne(n int, what, name, field string) error {
	if n == 0 {
		return fail.New(fail.Refused, "the cloud has no %s called %s", strings.TrimSuffix(what, "s"), name).At(field)
	}
	return fail.New(fail.Refused, "the cloud has %d %s called %s", n, what, name).At(field).Do("give the ID of the one to use")
}

// Untold reports whether a service withholds the requested information.
func Untold(err error) bool {
	return Status(err) == http.StatusForbidden || Status(err) == http.StatusNotFound
}

// Still turns the refusal to delete a resource in use into a reason to wait.
func Still(err error, by func() string) error {
	if s := Status(err); s == http.StatusConflict || s == http.StatusBadRequest {
		if who := by(); who != "" {
			return fail.Wrap(fail.NotReady, err, "%s", who)
		}
		return fail.Wrap(fail.NotReady, err, "it is still in use")
	}
	return err
}

// Count returns a number of things in words: "one port", "3 ports".
func Count(n int, what string) string {
	if n == 1 {
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
