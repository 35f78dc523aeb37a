package bmc

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// mostBytes bounds an answer.
const mostBytes = 64 << 20

// mostRedirects bounds the redirects of one request.
const mostRedirects = 5

// redirects are the statuses of redirects.
var redirects = []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}

// redfishClient is a client of one controller, with a session or with the password in each request.
type redfishClient struct {
	access  Access
	http    *http.Client
	token   string // of the session; may be empty
	session string // the session's path: logging out deletes it
	basic   bool
}

// answer is an answer other than a refusal.
type answer struct {
	status int
	header http.Header
	fields fields
}

// etags are the answer's tags: the header's, and the body's if it differs.
func (a *answer) etags() (out []string) {
	for _, t := range []string{a.header.Get("ETag"), a.fields.text("@odata.etag")} {
		if t = strings.TrimSpace(t); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out
}

// httpError is a controller's refusal.
type httpError struct {
	status int
	text   string
	basic  bool // it requires the password in the request
}

func (e *httpError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("HTTP %d %s", e.status, e.text))
}

// statusOf returns the HTTP status of a refusal, or 0 for other errors.
func statusOf(err error) int {
	var e *httpError
	if errors.As(err, &e) {
		return e.status
	}
	return 0
}

// asksBasic reports whether a refusal asks for the password in the request.
func asksBasic(h http.Header) bool {
	return slices.ContainsFunc(h.Values("WWW-Authenticate"), func(v string) bool { return strings.Contains(strings.ToLower(v), "basic") })
}

// offersBasic reports whether err is a refusal that asks for the password in the request.
func offersBasic(err error) bool {
	var e *httpError
	return errors.As(err, &e) && e.basic
}

// logIn opens a session, and returns the paths of the controller's machines. If sessions are not available, each request has the password: the
// specification requires both of every service, and many have only one.
func logIn(ctx context.Context, a Access) (*redfishClient, []string, error) {
	const what = "log in to the machine's BMC"
	c := &redfishClient{access: a, http: a.client()}
	root, err := c.get(ctx, "/redfish/v1/", "Systems", "Links", "SessionService")
	offered := err == nil // sessions, if the root names them
	if code := statusOf(err); code == http.StatusUnauthorized || code == http.StatusForbidden {
		root = &answer{} // it shows nothing without a login: use the specification's paths
		root.fields = fields{"SessionService": json.RawMessage(`"/redfish/v1/SessionService"`)}
	} else if err != nil {
		return nil, nil, a.refused(err, what)
	}
	sessions := root.fields.object("Links").link("Sessions")
	if service := root.fields.link("SessionService"); sessions == "" && service != "" {
		sessions = strings.TrimSuffix(service, "/") + "/Sessions"
	}
	systems := root.fields.link("Systems")
	if systems == "" {
		systems = "/redfish/v1/Systems"
	}
	opened := errors.New("the service has no sessions")
	if sessions != "" {
		if opened = c.open(hasty(ctx), sessions); opened != nil && statusOf(opened) == 0 {
			return nil, nil, a.refused(opened, what)
		}
		// The same password in a request would be a second failure, and controllers lock accounts after a few. Another service that requires
		// authentication, such as a proxy, says so.
		if statusOf(opened) == http.StatusUnauthorized && offered && !offersBasic(opened) {
			return nil, nil, a.refused(opened, what)
		}
	}
	c.basic = opened != nil
	members, err := c.members(ctx, systems)
	if code := statusOf(err); c.basic && statusOf(opened) == http.StatusServiceUnavailable && code == http.StatusUnauthorized { // it was busy, and supports only sessions
		if c.basic, opened = false, c.open(ctx, sessions); opened == nil {
			members, err = c.members(ctx, systems)
		}
	}
	if err != nil {
		c.logOut(ctx)
		if code := statusOf(opened); statusOf(err) == http.StatusUnauthorized && code != 0 && code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
			err = opened // it supports sessions, and says why it refuses one
		}
		if c.token == "" {
			return nil, nil, a.refused(err, what)
		}
		return nil, nil, a.refused(err, "ask the BMC for its machine")
	}
	return c, members, nil
}

// open opens a session.
func (c *redfishClient) open(ctx context.Context, sessions string) error {
	resp, err := c.send(ctx, http.MethodPost, sessions, "", map[string]any{"UserName": c.access.User, "Password": string(c.access.Password)})
	if err != nil {
		return err
	}
	c.session = resp.fields.text("@odata.id")
	if at := resp.header.Get("Location"); at != "" {
		c.session = at
	}
	if c.token = resp.header.Get("X-Auth-Token"); c.token == "" {
		return &httpError{status: resp.status, text: "the BMC opens a session without a token"}
	}
	return nil
}

// logOut closes the session, because controllers have few.
func (c *redfishClient) logOut(ctx context.Context) {
	if c.token != "" && c.session != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answers)
		defer cancel()
		_, _ = c.send(hasty(ctx), http.MethodDelete, c.session, "", nil) // an unclosed session ends by itself
	}
	c.http.CloseIdleConnections()
}

// members lists the paths of a collection's members, over all its pages.
func (c *redfishClient) members(ctx context.Context, at string) (out []string, err error) {
	for pages := 0; at != "" && pages < 100; pages++ {
		resp, err := c.get(ctx, at, "Members", "Members@odata.nextLink")
		if err != nil {
			return nil, err
		}
		for _, raw := range resp.fields.list("Members") {
			if m := (fields{"m": raw}).link("m"); m != "" {
				out = append(out, m)
			}
		}
		at = resp.fields.link("Members@odata.nextLink")
	}
	return out, nil
}

// get reads some members of a resource.
func (c *redfishClient) get(ctx context.Context, at string, names ...string) (*answer, error) {
	resp, err := c.do(ctx, http.MethodGet, at, "", nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	f, err := readFields(io.LimitReader(resp.Body, mostBytes), names...)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "read the BMC's answer at %s", at).At(c.access.Address).Do("look at its BMC's own pages or event log")
	}
	return &answer{resp.StatusCode, resp.Header, f}, nil
}

// send sends a request with a body. The answer's body may have any form.
func (c *redfishClient) send(ctx context.Context, method, at, match string, body any) (*answer, error) {
	resp, err := c.do(ctx, method, at, match, body)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	f, err := readFields(io.LimitReader(resp.Body, mostBytes), "@odata.id", "TaskMonitor", "TaskState", "Messages")
	if err != nil {
		f = nil // none, HTML, or text: the action succeeded nevertheless
	}
	return &answer{resp.StatusCode, resp.Header, f}, nil
}

// own returns the path of a URL that the controller sent: the URL may have another address than the controller's.
func (c *redfishClient) own(at string) (string, error) {
	u, err := url.Parse(at)
	if err != nil || !strings.HasPrefix(u.Path, "/") {
		return "", fail.Wrap(fail.Refused, err, "the BMC names an address that is not its own: %q", at).At(c.access.Address)
	}
	return u.RequestURI(), nil
}

// do sends a request. It follows redirects itself: net/http would turn a PATCH into a GET, whose success would be taken for the PATCH's.
func (c *redfishClient) do(ctx context.Context, method, at, match string, body any) (*http.Response, error) {
	path, err := c.own(at)
	if err != nil {
		return nil, err
	}
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "ask a BMC")
		}
	}
	for followed := 0; ; followed++ {
		resp, err := c.once(ctx, method, path, match, content)
		if err != nil || resp.StatusCode/100 == 2 {
			return resp, err
		}
		to := resp.Header.Get("Location")
		if to == "" || !slices.Contains(redirects, resp.StatusCode) {
			defer func() { _ = resp.Body.Close() }()
			return nil, &httpError{resp.StatusCode, c.reason(resp.Body), asksBasic(resp.Header)}
		}
		_ = resp.Body.Close()
		if path, err = c.redirected(resp.Request.URL, to); err != nil {
			return nil, err
		}
		if followed == mostRedirects {
			return nil, &httpError{status: resp.StatusCode, text: fmt.Sprintf("the BMC redirects more than %d times, at last to %q", mostRedirects, path)}
		}
		if resp.StatusCode == http.StatusSeeOther { // the request was carried out, and its result is at the other path
			method, content = http.MethodGet, nil
		}
	}
}

// once sends a request once.
func (c *redfishClient) once(ctx context.Context, method, path, match string, content []byte) (*http.Response, error) {
	var body io.Reader
	if content != nil {
		body = bytes.NewReader(content)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.access.origin()+path, body)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "ask a BMC").At(c.access.Address)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("OData-Version", "4.0")
	if content != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if match != "" {
		req.Header.Set("If-Match", match)
	}
	switch {
	case c.token != "":
		req.Header.Set("X-Auth-Token", c.token)
	case c.basic:
		req.SetBasicAuth(c.access.User, string(c.access.Password))
	}
	req.Close = true // controllers keep few connections
	return c.http.Do(req)
}

// redirected returns the path of a redirect, which must lead to the same controller: requests carry the session's token or the password.
func (c *redfishClient) redirected(from *url.URL, to string) (string, error) {
	u, err := from.Parse(to)
	if err != nil || u.Scheme != from.Scheme || u.User != nil || !strings.EqualFold(u.Hostname(), from.Hostname()) || cmp.Or(u.Port(), "443") != cmp.Or(from.Port(), "443") {
		return "", fail.Wrap(fail.Refused, err, "the BMC redirects to an address that is not its own: %q", to).At(c.access.Address)
	}
	return c.own(u.RequestURI())
}

// reason returns a refusal's message without the password: some controllers repeat the request.
func (c *redfishClient) reason(r io.Reader) string {
	f, err := readFields(io.LimitReader(r, 1<<20), "error")
	if err != nil {
		return "" // HTML, or nothing: use the status
	}
	e := f.object("error")
	said := []string{e.text("message")}
	infos := e.list("@Message.ExtendedInfo")
	if one := e["@Message.ExtendedInfo"]; infos == nil && one != nil {
		infos = []json.RawMessage{one}
	}
	for _, raw := range infos {
		if m := (fields{"i": raw}).object("i").text("Message"); !slices.Contains(said, m) {
			said = append(said, m)
		}
	}
	out := strings.Join(strings.Fields(strings.ReplaceAll(strings.Join(said, " "), string(c.access.Password), "…")), " ")
	if most := []rune(out); len(most) > 500 {
		out = string(most[:500]) + "…"
	}
	return out
}

// waiting is how long a task may stay unstarted before it counts as waiting for the reset.
const waiting = 5 * time.Second

// follow waits for the end of an action's task, if it has one. A task that the controller no longer knows has ended. A task that does not begin after
// a while may wait for a reset, like changes of settings: follow then stops waiting and returns pending.
func (c *redfishClient) follow(ctx context.Context, resp *answer, begins time.Duration) (pending bool, err error) {
	if resp.status != http.StatusAccepted {
		return false, nil
	}
	at := resp.header.Get("Location")
	if at == "" {
		at = resp.fields.link("TaskMonitor")
	}
	if at == "" && resp.fields.text("TaskState") != "" {
		at = resp.fields.text("@odata.id")
	}
	late := time.Now().Add(begins)
	for at != "" {
		wait := pause(resp.header)
		if slices.Contains(notBegun, resp.fields.text("TaskState")) {
			wait = min(wait, max(time.Until(late), looks))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if resp, err = c.send(ctx, http.MethodGet, at, "", nil); err != nil {
			if slices.Contains([]int{http.StatusNotFound, http.StatusGone, http.StatusMethodNotAllowed}, statusOf(err)) {
				return false, nil
			}
			return false, err
		}
		switch state := resp.fields.text("TaskState"); {
		case slices.Contains([]string{"Exception", "Killed", "Cancelled"}, state):
			why := "the BMC's task ended as " + state
			for _, raw := range resp.fields.list("Messages") {
				why += ": " + (fields{"m": raw}).object("m").text("Message")
			}
			return false, fail.New(fail.Refused, "%s", why).At(c.access.Address)
		case slices.Contains(notBegun, state) && time.Now().After(late):
			return true, nil
		case resp.status == http.StatusAccepted, slices.Contains(notBegun, state), slices.Contains([]string{"Running", "Stopping", "Cancelling"}, state):
		default:
			return false, nil
		}
	}
	return false, nil
}

// notBegun lists the states of a task that has not begun.
var notBegun = []string{"New", "Starting", "Pending", "Suspended", "Service", "Interrupted"}

// pause returns how long to wait before a task is read again.
func pause(h http.Header) time.Duration {
	if wait, ok := retryAfter(h); ok {
		return wait
	}
	return looks
}

// retryAfter parses Retry-After: seconds, or a date.
func retryAfter(h http.Header) (time.Duration, bool) {
	said := strings.TrimSpace(h.Get("Retry-After"))
	if n, err := strconv.Atoi(said); err == nil && n >= 0 && n < 1<<20 {
		return time.Duration(n) * time.Second, true
	}
	if at, err := http.ParseTime(said); err == nil {
		return max(0, time.Until(at)), true
	}
	return 0, false
}
