package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Base addresses of the services.
func (b *Bed) keystone() string { return "http://" + b.api(5000) + "/v3" }
func (b *Bed) nova() string     { return "http://" + b.api(8774) + "/v2.1" }
func (b *Bed) neutron() string  { return "http://" + b.api(9696) + "/v2.0" }
func (b *Bed) glance() string   { return "http://" + b.api(9292) + "/v2" }
func (b *Bed) octavia() string  { return "http://" + b.api(9876) + "/v2.0" }
func (b *Bed) cinder(project string) string {
	return "http://" + b.api(8776) + "/v3/" + project
}

// object is a JSON object of an API's answer.
type object map[string]any

func (o object) text(key string) string { s, _ := o[key].(string); return s }

// admin is a session, mostly of the cloud's administrator. The bed uses no client library for its setup.
type admin struct {
	b       *Bed
	token   string
	project string // the administrator's own project
}

func (b *Bed) login(ctx context.Context) (*admin, error) {
	return b.loginAs(ctx, "admin", b.secrets.Admin)
}

// loginAs returns the session of a user whose project has the user's name.
func (b *Bed) loginAs(ctx context.Context, user, password string) (*admin, error) {
	domain := object{"id": "default"}
	body := object{"auth": object{
		"identity": object{"methods": []string{"password"}, "password": object{"user": object{"name": user, "password": password, "domain": domain}}},
		"scope":    object{"project": object{"name": user, "domain": domain}},
	}}
	a := &admin{b: b}
	var answer struct {
		Token struct {
			Project struct{ ID string } `json:"project"`
		} `json:"token"`
	}
	header, err := a.call(ctx, http.MethodPost, b.keystone()+"/auth/tokens", body, &answer)
	if err != nil {
		return nil, err
	}
	a.token, a.project = header.Get("X-Subject-Token"), answer.Token.Project.ID
	return a, nil
}

// call sends body and decodes the answer into out; either may be nil. A status of 400 or more is an error that contains the answer's text.
func (a *admin) call(ctx context.Context, method, url string, body, out any) (http.Header, error) {
	contentType := "application/json"
	var data []byte
	switch v := body.(type) {
	case nil:
	case []byte:
		contentType, data = "application/octet-stream", v
	default:
		var err error
		if data, err = json.Marshal(v); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", contentType)
	if a.token != "" {
		req.Header.Set("X-Auth-Token", a.token)
	}
	resp, err := a.b.http.Do(req)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "call the API")
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "read the answer of %s %s", method, url)
	}
	if resp.StatusCode >= 400 {
		return nil, fail.New(fail.Internal, "%s %s: %s: %s", method, url, resp.Status, strings.TrimSpace(string(text)))
	}
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			return nil, fmt.Errorf("read the answer of %s %s: %w", method, url, err)
		}
	}
	return resp.Header, nil
}

// list returns the objects that a collection holds under key.
func (a *admin) list(ctx context.Context, url, key string) ([]object, error) {
	var answer map[string]json.RawMessage
	if _, err := a.call(ctx, http.MethodGet, url, nil, &answer); err != nil {
		return nil, err
	}
	var all []object
	return all, json.Unmarshal(answer[key], &all)
}

// ensure returns the ID of the object with the name of want, and creates the object if it does not exist. url is the collection, key is the
// list's key in answers, and one is the key of a single object.
func (a *admin) ensure(ctx context.Context, url, key, one string, want object) (id string, err error) {
	all, err := a.list(ctx, url, key)
	if err != nil {
		return "", err
	}
	for _, o := range all {
		if o["name"] == want["name"] {
			return idOf(o), nil
		}
	}
	var body any = object{one: want}
	if one == "" { // Glance does not wrap its objects
		body = want
	}
	var answer object
	if _, err := a.call(ctx, http.MethodPost, url, body, &answer); err != nil {
		return "", err
	}
	if one != "" {
		m, _ := answer[one].(map[string]any)
		answer = m
	}
	return idOf(answer), nil
}

// idOf returns the ID of an object. Nova's aggregates have numbers as IDs.
func idOf(o object) string {
	if n, ok := o["id"].(float64); ok {
		return fmt.Sprintf("%.0f", n)
	}
	return o.text("id")
}
