package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/fail"
)

// Wrap gives a cloud's refusal its kind, says what was attempted and repeats the cloud's own words. nil stays nil.
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

// Fault is what a cloud answered, in its own words.
type Fault struct {
	Status int
	Text   string
}

// Error is the cloud's text with its status.
func (f *Fault) Error() string {
	status := http.StatusText(f.Status)
	if f.Text == "" {
		return "the cloud answers " + status
	}
	return f.Text + " (" + status + ")"
}

// Classify tells of what kind an error of a call is, what to say of it, and what to do about it.
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

// bare drops method and address of a URL error: an address holds IDs that tell people nothing, and maybe more.
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
	case f.Status == http.StatusNotAcceptable: // what Nova says to a microversion that it does not speak
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

// faultText finds the words for people in an answer: each service wraps them in another way.
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

// OneLine puts what a cloud says on one line, of at most 500 bytes.
func OneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 500 {
		s = s[:500] + "…"
	}
	return s
}

// Status returns the HTTP status of a refusal; 0 where err is something else.
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

// Gone reports whether err says that a thing does not exist.
func Gone(err error) bool { return Status(err) == http.StatusNotFound }

// Interrupted reports whether err says that somebody was stopped, or their time was up.
func Interrupted(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// UnlessGone forgives that what is deleted is not there.
func UnlessGone(err error) error {
	if Gone(err) {
		return nil
	}
	return err
}

// NotOne says that a name does not stand for exactly one thing.
func NotOne(n int, what, name, field string) error {
	if n == 0 {
		return fail.New(fail.Refused, "the cloud has no %s called %s", strings.TrimSuffix(what, "s"), name).At(field)
	}
	return fail.New(fail.Refused, "the cloud has %d %s called %s", n, what, name).At(field).Do("give the ID of the one to use")
}

// Untold reports whether a service keeps to itself what it was asked.
func Untold(err error) bool {
	return Status(err) == http.StatusForbidden || Status(err) == http.StatusNotFound
}
