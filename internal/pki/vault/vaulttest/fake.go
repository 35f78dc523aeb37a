// Package vaulttest provides Vaults for tests: a fake that implements the few calls of package vault, and the real one, built from the Go module
// proxy.
//
// It is for tests only.
package vaulttest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
)

// Fake is a Vault in memory. Tests change its State with Change.
type Fake struct {
	Spec v1alpha1.Vault // the document's part that names this Fake

	server *httptest.Server
	mu     sync.Mutex
	State
}

// State is the state of a Fake.
type State struct {
	Sealed   bool
	Clock    time.Duration             // difference from ours
	Longest  time.Duration             // the mounts' max_lease_ttl
	Mounts   map[string]bool           // those with an issuer
	Roles    map[string]map[string]any // by path
	Tokens   map[string]bool           // valid tokens
	AppRole  map[string]string         // secret_id by role_id
	Rotators map[string]bool           // tokens that may only rotate
	Issuers  map[string][]*Authority   // by mount, the default issuer first
	Forbid   string                    // calls to paths with this suffix are refused; empty: none
	Signed   []string                  // paths of calls that signed a certificate
	LoggedIn int
}

// Authority is an issuer of a mount of a Fake.
type Authority struct {
	ID, Name, Usage string
	Certificate     []byte
}

const token = "hvs.fake"

// NewFake starts a Fake without mounts and roles, which accepts one token and one AppRole. It sets $VAULT_TOKEN to the token for the test.
func NewFake(t *testing.T) *Fake {
	t.Helper()
	f := &Fake{State: State{
		Longest: 10 * 365 * 24 * time.Hour, Mounts: map[string]bool{}, Roles: map[string]map[string]any{}, Tokens: map[string]bool{token: true},
		AppRole: map[string]string{"the-role": "the-secret"}, Rotators: map[string]bool{}, Issuers: map[string][]*Authority{},
	}}
	issuer := &pkitest.Issuer{}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(w, r, issuer) }))
	t.Cleanup(f.server.Close)
	t.Setenv("VAULT_TOKEN", token)
	f.Spec = v1alpha1.Vault{Address: f.server.URL, Mount: "pki/demo", Auth: v1alpha1.VaultAuth{Method: v1alpha1.VaultToken}}
	return f
}

// Stop stops the server.
func (f *Fake) Stop() { f.server.Close() }

// Change changes the state under its lock.
func (f *Fake) Change(do func(*State)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(&f.State)
}

// Look returns a copy of the state.
func (f *Fake) Look() State {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.State
	s.Signed, s.Roles, s.Issuers = slices.Clone(s.Signed), maps.Clone(s.Roles), maps.Clone(s.Issuers)
	return s
}

// Run executes the vault write commands, for authorities and roles, of a script that package vault prints.
func (f *Fake) Run(commands string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for line := range strings.Lines(commands) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "vault" || words[1] != "write" {
			continue
		}
		at := words[2]
		if mount, ok := strings.CutSuffix(at, "/root/generate/internal"); ok {
			f.Mounts[mount] = true
		}
		if !strings.Contains(at, "/roles/") {
			continue
		}
		role := map[string]any{"use_csr_common_name": true, "use_csr_sans": true, "allow_ip_sans": true, "code_signing_flag": false}
		for _, w := range words[3:] {
			key, value, _ := strings.Cut(w, "=")
			role[key] = settingOf(key, value)
		}
		f.Roles[at] = role
	}
}

func settingOf(key, value string) any {
	switch key {
	case "organization", "key_usage", "cn_validations":
		return slices.DeleteFunc(strings.Split(value, ","), func(s string) bool { return s == "" })
	case "key_bits":
		var n int
		_, _ = fmt.Sscan(value, &n)
		return n
	case "max_ttl", "ttl", "not_before_duration":
		d, _ := time.ParseDuration(value)
		return int(d.Seconds())
	}
	if value == "true" || value == "false" {
		return value == "true"
	}
	return value
}

// serve answers one call.
func (f *Fake) serve(w http.ResponseWriter, r *http.Request, issuer *pkitest.Issuer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := strings.TrimPrefix(r.URL.Path, "/v1/")
	say := func(status int, body any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(body)
	}
	no := func(status int, words string) { say(status, map[string]any{"errors": []string{words}}) }
	data := func(body any) { say(http.StatusOK, map[string]any{"data": body}) }
	in := map[string]any{}
	_ = json.NewDecoder(r.Body).Decode(&in)
	mount, rest, known := f.mountOf(at)
	switch {
	case at == "sys/health":
		say(http.StatusOK, map[string]any{"initialized": true, "sealed": f.Sealed, "server_time_utc": time.Now().Add(f.Clock).Unix(), "version": "0.0.0-fake"})
	case f.Sealed:
		no(http.StatusServiceUnavailable, "Vault is sealed")
	case at == "auth/approle/login":
		f.LoggedIn++
		secret := f.AppRole[fmt.Sprint(in["role_id"])]
		if secret == "" || secret != in["secret_id"] {
			no(http.StatusBadRequest, "invalid role or secret ID")
			return
		}
		fresh := fmt.Sprintf("hvs.fake-%d", f.LoggedIn)
		f.Tokens[fresh] = true
		say(http.StatusOK, map[string]any{"auth": map[string]any{"client_token": fresh, "lease_duration": 3600}})
	case !f.may(r.Header.Get("X-Vault-Token"), r.Method, at), f.Forbid != "" && strings.HasSuffix(at, f.Forbid):
		no(http.StatusForbidden, "1 error occurred:\n\t* permission denied\n\n")
	case at == "auth/token/lookup-self":
		data(map[string]any{"display_name": "token", "policies": []string{"default", "naupegos-demo"}, "ttl": 3600})
	case at == "sys/capabilities-self":
		may := map[string]any{}
		for _, p := range in["paths"].([]any) {
			p := p.(string)
			may[p] = []string{"update", "read", "patch"}
			if !f.may(r.Header.Get("X-Vault-Token"), http.MethodPost, p) || f.Forbid != "" && strings.HasSuffix(p, f.Forbid) {
				may[p] = []string{"deny"}
			}
		}
		data(may)
	case strings.HasPrefix(at, "sys/internal/ui/mounts/"):
		data(map[string]any{"type": "pki", "config": map[string]any{"max_lease_ttl": int(f.Longest.Seconds())}})
	case !known:
		no(http.StatusNotFound, "no handler for route \""+at+"\"")
	case strings.HasPrefix(rest, "roles/") && f.Roles[at] == nil:
		no(http.StatusNotFound, "")
	case strings.HasPrefix(rest, "roles/"):
		data(f.Roles[at])
	default:
		out, status, err := f.inMount(r, issuer, mount, rest, in)
		if err != nil {
			no(status, err.Error())
			return
		}
		data(out)
	}
}

// may reports whether a token allows a call.
func (f *Fake) may(token, method, at string) bool {
	if f.Rotators[token] {
		return privileged(method, at) || strings.HasPrefix(at, "sys/capabilities-self")
	}
	return f.Tokens[token] && !privileged(method, at)
}

// privileged reports whether a call needs the right to rotate.
func privileged(method, at string) bool {
	dir, last := path.Split(at)
	return last == "sign-intermediate" || last == "cross-sign" || strings.HasSuffix(at, "/root/generate/internal") || strings.HasSuffix(at, "/config/issuers") ||
		strings.HasSuffix(dir, "/issuer/") || method == http.MethodPatch
}

// mountOf splits a path in a known mount into the mount and the rest.
func (f *Fake) mountOf(at string) (mount, rest string, known bool) {
	for m := range f.Mounts {
		if rest, ok := strings.CutPrefix(at, m+"/"); ok {
			return m, rest, true
		}
	}
	return "", at, false
}
