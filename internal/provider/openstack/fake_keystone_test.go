package openstack

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// fakeKeystone is a fake cloud that also issues application credentials with access rules, like the real one: a user has each rule once; it outlives
// the credential, and can't be deleted while a credential uses it (TestCloudCredential runs the same against it).
type fakeKeystone struct {
	*fakeCloud
	rules   string // how it treats requested access rules: "" kept, "ignored", "refused"
	untyped string // services that don't know their own type, by their hosts
	down    string // services that are down, by their hosts
}

// provider returns a provider of a cluster with this ID in the cloud.
func (f *fakeKeystone) provider(t *testing.T, id string) *Provider {
	t.Helper()
	return fakeProvider(t, f.fakeCloud, fakeDocument(t), func(o *Options) {
		o.ClusterID, o.Calls.HTTPClient = id, &http.Client{Transport: f}
		o.Calls.Retry = cloud.Retry{Attempts: 1}
	})
}

// RoundTrip answers calls to Keystone, and calls that services refuse; the fake cloud answers the others.
func (f *fakeKeystone) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	host, token := r.URL.Hostname(), r.Header.Get("X-Auth-Token")
	bounded := f.bounds(token)
	switch {
	case host == "keystone":
		f.keystone(w, r)
	case slices.Contains(strings.Fields(f.down), host):
		refuse(w, 503, "it is down")
	case bounded && slices.Contains(strings.Fields(f.untyped), host):
		refuse(w, 401, "The request you have made requires authentication.")
	default:
		return f.fakeCloud.RoundTrip(r)
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// bounds reports whether a token is of a credential with access rules.
func (f *fakeKeystone) bounds(token string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.get("credentials", token)
	return c != nil && c["access_rules"] != nil
}

func (f *fakeKeystone) keystone(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	var text []byte
	if r.Body != nil {
		text, _ = io.ReadAll(r.Body)
	}
	const user = "/v3/users/u/"
	switch call := r.Method + " " + r.URL.Path; {
	case call == "POST /v3/auth/tokens":
		f.logIn(w, text)
	case call == "POST "+user+"application_credentials":
		f.delegate(w, text)
	case call == "GET "+user+"application_credentials":
		answer(w, 200, thing{"application_credentials": f.kinds["credentials"]})
	case call == "GET "+user+"access_rules":
		answer(w, 200, thing{"access_rules": f.kinds["rules"]})
	case strings.HasPrefix(call, "DELETE "+user+"application_credentials/"):
		f.drop("credentials", path.Base(r.URL.Path))
		w.WriteHeader(204)
	case strings.HasPrefix(call, "DELETE "+user+"access_rules/"):
		for _, c := range f.kinds["credentials"] {
			all, _ := c["access_rules"].([]thing)
			if slices.ContainsFunc(all, func(t thing) bool { return t.str("id") == path.Base(r.URL.Path) }) {
				refuse(w, 403, "May not delete access rule in use")
				return
			}
		}
		f.drop("rules", path.Base(r.URL.Path))
		w.WriteHeader(204)
	default:
		refuse(w, 404, call)
	}
}

// logIn gives an application credential's ID as its token.
func (f *fakeKeystone) logIn(w http.ResponseWriter, text []byte) {
	var asked struct {
		Auth struct {
			Identity struct {
				Credential *struct{ ID, Secret string } `json:"application_credential"`
			}
		}
	}
	_ = json.Unmarshal(text, &asked)
	given := httptest.NewRecorder()
	f.login(given)
	if c := asked.Auth.Identity.Credential; c != nil {
		have := f.get("credentials", c.ID)
		if have == nil || have.str("secret") != c.Secret {
			refuse(w, 401, "no such credential")
			return
		}
		given.Header().Set("X-Subject-Token", c.ID)
	}
	maps.Copy(w.Header(), given.Header())
	w.WriteHeader(given.Code)
	_, _ = w.Write(given.Body.Bytes())
}

func (f *fakeKeystone) delegate(w http.ResponseWriter, text []byte) {
	var asked struct {
		Credential struct {
			Name        string  `json:"name"`
			Description string  `json:"description"`
			Roles       []thing `json:"roles"`
			Expires     string  `json:"expires_at"`
			Rules       []thing `json:"access_rules"`
		} `json:"application_credential"`
	}
	_ = json.Unmarshal(text, &asked)
	c := asked.Credential
	made := thing{"name": c.Name, "description": c.Description, "roles": c.Roles, "secret": "s3cret of " + c.Name}
	if c.Expires != "" {
		if _, err := time.Parse("2006-01-02T15:04:05.999999", c.Expires); err != nil {
			refuse(w, 400, err.Error())
			return
		}
		made["expires_at"] = c.Expires
	}
	if len(c.Rules) > 0 && f.rules == "refused" {
		refuse(w, 400, "Additional properties are not allowed ('access_rules' was unexpected)")
		return
	}
	if len(c.Rules) > 0 && f.rules == "" {
		var rules []thing
		for _, r := range c.Rules {
			rules = append(rules, f.rule(r))
		}
		made["access_rules"] = rules
	}
	answer(w, 201, thing{"application_credential": f.add("credentials", made)})
}

// rule returns the user's rule like r.
func (f *fakeKeystone) rule(r thing) thing {
	for _, have := range f.kinds["rules"] {
		if fmt.Sprint(have["service"], have["method"], have["path"]) == fmt.Sprint(r["service"], r["method"], r["path"]) {
			return have
		}
	}
	return f.add("rules", r)
}

// names lists the names of the credentials that there are, without their last parts, which are random.
func (f *fakeKeystone) names() string {
	var out []string
	for _, c := range f.kinds["credentials"] {
		name := c.str("name")
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			name = name[:i]
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}
