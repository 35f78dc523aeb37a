package routes_test

import (
	"crypto/ecdsa"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/routes"
	"github.com/naupegos/naupegos/internal/server/routes/client"
	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	uuid1 = "b7f5f93a-b029-475f-b3a4-479ba198cb8a"
	mac1  = "52:54:00:e8:32:5b"
)

// TestOlderSystem uses the older system's routes in the order of a rack's life, with its selectors, bodies and statuses.
func TestOlderSystem(t *testing.T) {
	s := newSite(t, registry.Options{Installs: 1})
	plain, operator := &http.Client{Timeout: time.Minute}, s.machine(nil)
	const q1 = "uuid=" + uuid1 + "&mac=52-54-00-e8-32-5b&os=installed"
	const q2 = "uuid=b7f5f93a-b029-475f-b3a4-479ba198cb82&mac=52-54-00-e8-32-52"
	first := strings.Replace(strings.Replace(legacy(1, "boot-1"), "cb81", "cb8a", 1), "00:e8:32:51", "00:e8:32:5b", 2)
	second := strings.Replace(first, `"boot-1"`, `"boot-2"`, 1)
	approve := func(uuid string) {
		testkit.Value(s.registry.Approve(t.Context(), uuid, "", "ann"))(t)
	}
	s.ignition = `{"b": 1, "a": [1.0, "x"]}`
	for _, c := range []struct {
		role         server.Role
		method, path string
		body         string
		status       int
		words        string
		then         func()
	}{
		{server.Anybody, "POST", "/discovery", first, 200, `"new-discovery":true`, nil},
		{server.Anybody, "POST", "/discovery", strings.Replace(second, "line of boot-1", "line of boot-2", 1), 200, `"new-discovery":false`, nil},
		{server.Anybody, "POST", "/discovery", legacy(2, "boot-1"), 200, `"new-discovery":true`, func() { approve("b7f5f93a-b029-475f-b3a4-479ba198cb82") }},
		{server.Anybody, "POST", "/discovery", "not JSON", 406, "JSON", nil},
		{server.Anybody, "POST", "/discovery", `{"boot-info": {}}`, 406, "lacks interfaces", nil},
		{server.Anybody, "POST", "/discovery", strings.Replace(first, "e8:32:5b", "e8", 1), 406, "MAC", nil},
		{server.Anybody, "POST", "/discovery", strings.Replace(first, uuid1, "b7f5f93a-b029-475f-b3a4-479ba198cb8b", 1), 200, `"approval":"pending"`, func() { testkit.Must(t, s.registry.Forget(t.Context(), "b7f5f93a-b029-475f-b3a4-479ba198cb8b")) }},
		{server.Anybody, "POST", "/discovery", strings.Repeat(" ", 1<<20+1), 413, "bytes", nil},
		{server.Read, "GET", "/discovery", "", 200, `"boot-info":{"uuid":"b7f5f93a-b029-475f-b3a4-479ba198cb82"`, nil},
		{server.Anybody, "GET", "/discovery", "", 401, "token", nil},
		{server.Read, "GET", "/discovery/interfaces", "", 200, `"cidrv4":"10.0.0.1/21","as_boot":true,"gateway":"10.0.0.1"`, nil},
		{server.Read, "GET", "/discovery/ignition-journal", "", 200, `"boot_id":"boot-2"},{"ctime"`, nil},
		{server.Read, "GET", "/discovery/ignition-journal/" + uuid1, "", 200, `["line of boot-2"]`, nil},
		{server.Read, "GET", "/discovery/ignition-journal/" + uuid1 + "/boot-1", "", 200, `["line of boot-1"]`, nil},
		{server.Read, "GET", "/discovery/ignition-journal/" + uuid1 + "/boot-9", "", 404, "boot-9", nil},
		{server.Read, "GET", "/discovery/ignition-journal/..%2f..%2fetc", "", 422, "UUID", nil},
		{server.Read, "GET", "/discovery/ignition-journal/b7f5f93a-b029-475f-b3a4-479ba198cb8f", "", 404, "no such machine", nil},

		{server.Read, "GET", "/scheduler/available", "", 200, `"ipv4":"10.0.0.2"`, nil},
		{server.Operate, "POST", "/scheduler", `{"roles": ["etcd-member", "kubernetes-control-plane"], "selector": {"mac": "52-54-00-E8-32-5B"}}`, 200, `"roles":["etcd-member","kubernetes-control-plane"]`, nil},
		{server.Operate, "POST", "/scheduler", `{"roles": ["kubernetes-node"], "selector": {"mac": "52:54:00:e8:32:52"}}`, 200, "kubernetes-node", nil},
		{server.Read, "POST", "/scheduler", `{"roles": ["kubernetes-node"], "selector": {"mac": "` + mac1 + `"}}`, 401, "role", nil},
		{server.Operate, "POST", "/scheduler", `{"roles": ["kubernetes-node"], "selector": {"mac": "52:54:00:00:00:99"}}`, 404, "no such machine", nil},
		{server.Operate, "POST", "/scheduler", `{"roles": ["kubernetes-node"]}`, 406, "selector.mac", nil},
		{server.Operate, "POST", "/scheduler", `{"roles": "x"}`, 406, "roles", nil},
		{server.Operate, "POST", "/scheduler", `{"roles": ["a/b"], "selector": {"mac": "` + mac1 + `"}}`, 422, "is not a role", nil},
		{server.Read, "GET", "/scheduler", "", 200, `{"52:54:00:e8:32:52":["kubernetes-node"],"52:54:00:e8:32:5b":["etcd-member","kubernetes-control-plane"]}`, nil},
		{server.Read, "GET", "/scheduler/kubernetes-control-plane", "", 200, `"mac":"52:54:00:e8:32:5b"`, nil},
		{server.Read, "GET", "/scheduler/kubernetes-control-plane&etcd-member", "", 200, `"mac":"52:54:00:e8:32:5b"`, nil},
		{server.Read, "GET", "/scheduler/etcd-member&kubernetes-node", "", 200, "[]\n", nil},
		{server.Read, "GET", "/scheduler/ip-list/kubernetes-control-plane", "", 200, `["10.0.0.1"]`, nil},
		{server.Operate, "POST", "/scheduler", `{"roles": [], "selector": {"mac": "52:54:00:e8:32:52"}}`, 200, "[]", nil},
		{server.Read, "GET", "/scheduler/available", "", 200, `"mac":"52:54:00:e8:32:52"`, nil},

		{server.Anybody, "GET", "/install-authorization/" + q1, "", 403, "not approved", func() { approve(uuid1) }},
		{server.Anybody, "GET", "/install-authorization/" + q1, "", 200, "Granted", nil},
		{server.Anybody, "GET", "/install-authorization/" + q2, "", 403, "Locked by 52:54:00:e8:32:5b", nil},
		{server.Anybody, "GET", "/install-authorization/mac=52-54-00-00-00-99", "", 404, "no such machine", nil},
		{server.Anybody, "GET", "/install-authorization/uuid=" + uuid1 + "&mac=52-54-00-e8-32-52", "", 404, "no such machine", nil},
		{server.Anybody, "GET", "/install-authorization/os=installed", "", 422, "names no machine", nil},
		{server.Anybody, "POST", "/lifecycle/coreos-install/success/" + q1, "the log", 200, "success", nil},
		{server.Anybody, "GET", "/install-authorization/" + q2, "", 200, "Granted", nil},
		{server.Anybody, "POST", "/lifecycle/coreos-install/fail/" + q2, "no space\nleft", 200, "fail", nil},
		{server.Anybody, "POST", "/lifecycle/coreos-install/perhaps/" + q2, "", 422, "perhaps", nil},
		{server.Read, "GET", "/lifecycle/coreos-install", "", 200, `"mac":"52:54:00:e8:32:52","fqdn":"m2.example.org","success":false`, nil},

		{server.Anybody, "POST", "/lifecycle/ignition/" + q1, `{"a":[1.0,"x"],"b":1}`, 200, "Up-to-date", func() { s.ignition = `{"b": 2}` }},
		{server.Anybody, "POST", "/lifecycle/ignition/" + q1, `{"a":[1.0,"x"],"b":1}`, 210, "Outdated", nil},
		{server.Anybody, "POST", "/lifecycle/ignition/" + q1, `[`, 406, "JSON", nil},
		{server.Anybody, "POST", "/lifecycle/ignition/mac=1", `{}`, 422, "MAC", nil},
		{server.Read, "GET", "/lifecycle/ignition", "", 200, `"mac":"52:54:00:e8:32:5b","fqdn":"m1.example.org","up-to-date":false`, nil},

		{server.Anybody, "GET", "/lifecycle/rolling/" + q1, "", 401, "", nil},
		{server.Operate, "POST", "/lifecycle/rolling/" + q1, "explode", 422, "explode", nil},
		{server.Operate, "POST", "/lifecycle/rolling/" + q1, "kexec", 200, `"strategy":"kexec"`, nil},
		{server.Anybody, "POST", "/lifecycle/rolling/" + q1, "kexec", 401, "token", nil},
		{server.Anybody, "GET", "/lifecycle/rolling/" + q1, "", 200, `{"enable":true,"strategy":"kexec"}`, nil},
		{server.Read, "GET", "/ui/view/machine", "", 200, `"MAC":"52:54:00:e8:32:5b","CIDR":"10.0.0.1/21","FQDN":"m1.example.org","DiskProfile":"1 × 21.47 GB","Roles":"etcd-member,kubernetes-control-plane","LastState":"running","UpdateStrategy":"kexec","UpToDate":false`, nil},
		{server.Operate, "DELETE", "/lifecycle/rolling/" + q1, "", 200, `"enable":false`, nil},
		{server.Anybody, "GET", "/lifecycle/rolling/" + q1, "", 403, `{"enable":false,"strategy":"kexec"}`, nil},
		{server.Read, "GET", "/lifecycle/rolling", "", 200, `"enable":false,"strategy":"kexec"`, nil},

		{server.Read, "GET", "/configs", "", 200, `{"installs":5}`, nil},
		{server.Operate, "POST", "/backup/db", "", 401, "admin", nil},
		{server.Admin, "POST", "/backup/db", "", 200, `"dest_size":1`, nil},
		{server.Operate, "POST", "/shutdown", "", 401, "admin", nil},
		{server.Admin, "POST", "/shutdown", "", 200, "stopping", nil},
		{server.Anybody, "GET", "/healthz", "", 200, "", nil},
	} {
		client, address := plain, c.path
		if c.role != server.Anybody || c.status == 401 && c.words == "token" {
			client, address = operator, s.https+c.path
		}
		status, body := s.ask(client, c.role, c.method, address, c.body)
		if status != c.status || !strings.Contains(body, c.words) {
			t.Errorf("%s %s %s: %d %s, want %d %s", c.role, c.method, c.path, status, body, c.status, c.words)
		}
		if c.then != nil {
			c.then()
		}
	}
	if !s.stopped {
		t.Error("the server was not stopped")
	}
	for _, path := range []string{"/scheduler", "/ui/view/machine", "/configs", "/api/v1/machines"} {
		if status, _ := s.ask(plain, server.Admin, "GET", path, ""); status != 404 && status != 405 {
			t.Errorf("%s is open on the provisioning network: %d", path, status)
		}
	}
}

// TestFleetLock: only machines of the group that show their key get places, and clients that show the group's token.
func TestFleetLock(t *testing.T) {
	s := newSite(t, registry.Options{RebootTTL: time.Hour})
	ctx := t.Context()
	one, two := s.machine(s.enrolAs(3, testkit.Value(facts.NewKey())(t))), s.machine(s.enrolAs(4, testkit.Value(facts.NewKey())(t)))
	const id1, id2, pending = "b7f5f93a-b029-475f-b3a4-479ba198cb83", "b7f5f93a-b029-475f-b3a4-479ba198cb84", "b7f5f93a-b029-475f-b3a4-479ba198cb85"
	for _, id := range []string{id1, id2} {
		testkit.Value(s.registry.Label(ctx, id, map[string]string{registry.LockGroup: "default"}, nil))(t)
	}
	if status, answer := s.ask(&http.Client{}, server.Anybody, "POST", "/discovery", legacy(5, "boot-1")); status != 200 {
		t.Fatal(answer)
	}
	secret, _, err := s.registry.Groups().NewToken(ctx, "default", 0)
	testkit.Must(t, err)
	other, _, err := s.registry.Groups().NewToken(ctx, "others", 0)
	testkit.Must(t, err)
	old, gone, err := s.registry.Groups().NewToken(ctx, "default", 0)
	testkit.Must(t, err)
	testkit.Must(t, s.registry.Groups().DropToken(ctx, gone.ID))
	body := func(id string) string { return `{"client_params": {"id": "` + id + `", "group": "default"}}` }
	nobody := s.machine(nil)
	for n, step := range []struct {
		client     *http.Client
		token      string
		path, body string
		status     int
		words      string
	}{
		{nobody, "", "pre-reboot", body("attacker"), 401, `"kind":"unauthorized"`}, {nobody, "", "pre-reboot", body(id1), 401, "certificate"},
		{nobody, "", "steady-state", body(id1), 401, "certificate"}, {nobody, "", "pre-reboot", body(pending), 401, "certificate"},
		{nobody, "Bearer naupegoslock_x_y", "pre-reboot", body("a"), 401, "not a valid token"}, {nobody, "Bearer " + old, "pre-reboot", body("a"), 401, "not a valid token"},
		{nobody, "Bearer " + other, "pre-reboot", body("a"), 403, "another group"}, {one, "", "pre-reboot", "{", 400, `"kind":"invalid_request"`},
		{one, "", "pre-reboot", `{"client_params": {"id": "` + id1 + `", "group": "a/b"}}`, 400, `"kind":"invalid_client_params"`},
		{one, "", "pre-reboot", `{"client_params": {"id": "` + id1 + `", "group": "prod.machines"}}`, 403, "not of the group"},
		{one, "", "pre-reboot", body(id2), 401, "certificate"}, {one, "", "pre-reboot", body("another"), 401, "no machine"},
		{one, "", "pre-reboot", body(id1), 200, ""}, {one, "", "pre-reboot", body(id1), 200, ""}, {two, "", "pre-reboot", body(id2), 409, `"kind":"failed_lock"`},
		{nobody, "", "steady-state", body(id1), 401, ""}, {two, "", "steady-state", body(id1), 401, ""}, {two, "", "steady-state", body(id2), 200, ""},
		{nobody, "Bearer " + secret, "steady-state", body(id1), 401, "certificate"}, {two, "", "pre-reboot", body(id2), 409, "held by [52:54:00:e8:32:53]"},
		{one, "", "steady-state", body(id1), 200, ""}, {two, "", "pre-reboot", body(id2), 200, ""}, {two, "", "steady-state", body(id2), 200, ""},
		{nobody, "Bearer " + secret, "pre-reboot", body(`a\u0000b`), 400, "can be printed"}, {nobody, "Bearer " + secret, "pre-reboot", body(`a\nb`), 400, "can be printed"},
		{nobody, "Bearer " + secret, "pre-reboot", body(`a\u001b[2J`), 400, "can be printed"}, {nobody, "Bearer " + secret, "pre-reboot", body(`a\u202eb`), 400, "can be printed"},
		{nobody, "Bearer " + secret, "pre-reboot", body(`a b `), 400, "can be printed"}, {nobody, "Bearer " + secret, "pre-reboot", body(strings.Repeat("x", 300)), 400, "can be printed"},
		{nobody, "Bearer " + secret, "steady-state", body(`a\u200bb`), 400, "can be printed"},
		{nobody, "Bearer " + secret, "pre-reboot", body("switch-1"), 200, ""}, {two, "", "pre-reboot", body(id2), 409, "held by [switch-1]"},
		{nobody, "Bearer " + secret, "steady-state", body("switch-2"), 200, ""}, {two, "", "pre-reboot", body(id2), 409, "switch-1"},
		{nobody, "Bearer " + secret, "steady-state", body("switch-1"), 200, ""}, {two, "", "pre-reboot", body(id2), 200, ""},
	} {
		status, got := s.ask(step.client, server.Anybody, "POST", s.https+"/v1/"+step.path, step.body, "fleet-lock-protocol", "true", "Authorization", step.token)
		if status != step.status || !strings.Contains(got, step.words) {
			t.Errorf("%d: %s %s: %d %s, want %d %s", n, step.path, step.body, status, got, step.status, step.words)
		}
	}
	if status, got := s.ask(one, server.Anybody, "POST", s.https+"/v1/pre-reboot", body(id1)); status != 400 || !strings.Contains(got, `"kind":"missing_header"`) {
		t.Errorf("%d %s", status, got)
	}
	if held := testkit.Value(s.registry.Holders(ctx))(t); len(held) != 1 || time.Until(held[0].Expires) > time.Hour || time.Until(held[0].Expires) < time.Minute {
		t.Errorf("places without an end: %+v", held)
	}
}

// TestZincati: Zincati shows a token by basic authentication. The machine is identified by its SMBIOS UUID if Zincati's identity.node_uuid has it,
// else by the ID that an operator has bound to it. Forgetting the machine releases its place.
func TestZincati(t *testing.T) {
	s := newSite(t, registry.Options{})
	// From the machine ID 0a0a…: systemd-id128 machine-id --app-specific=de35106b6ec24688b63afddaa156679b, which is HMAC-SHA256 cut to a UUID.
	const id, keyed, plain = "20ea3894cd9c419d8fa2840259381abc", "b7f5f93a-b029-475f-b3a4-479ba198cb83", "b7f5f93a-b029-475f-b3a4-479ba198cb84"
	secret, token, err := s.registry.Groups().NewToken(t.Context(), "workers", time.Hour)
	testkit.Must(t, err)
	ask := func(path, id string, status int, words string) {
		t.Helper()
		body := `{"client_params":{"id":"` + id + `","group":"workers"}}`
		address := strings.Replace(s.http, "http://", "http://workers:"+secret+"@", 1) + "/v1/" + path // in the form of Zincati's base_url
		if got, answer := s.ask(&http.Client{}, server.Anybody, "POST", address, body, "fleet-lock-protocol", "true", "Content-Type", "application/json"); got != status || !strings.Contains(answer, words) {
			t.Errorf("%s of %s: %d %s", path, id, got, answer)
		}
	}
	holders := func(want ...string) {
		t.Helper()
		var got []string
		for _, p := range testkit.Value(s.registry.Holders(t.Context()))(t) {
			got = append(got, p.Holder+" "+p.Detail)
		}
		if !slices.Equal(got, want) {
			t.Errorf("places are held by %q, not %q", got, want)
		}
	}
	s.enrol(testkit.Value(facts.NewKey())(t))
	if status, body := s.ask(&http.Client{}, server.Anybody, "POST", "/discovery", legacy(4, "boot-1")); status != 200 {
		t.Fatal(body)
	}
	testkit.Value(s.registry.Approve(t.Context(), plain, "", "ann"))(t)
	label := func(uuid, key, value string) {
		testkit.Value(s.registry.Label(t.Context(), uuid, map[string]string{key: value}, nil))(t)
	}
	label(plain, registry.LockGroup, "workers")
	label(keyed, registry.LockGroup, "workers")
	bare := strings.ReplaceAll(plain, "-", "")
	ask("pre-reboot", bare, 200, "")
	holders(plain + " 52:54:00:e8:32:54")
	ask("pre-reboot", id, 409, "52:54:00:e8:32:54")
	ask("steady-state", bare, 200, "")
	ask("pre-reboot", strings.ReplaceAll(keyed, "-", ""), 401, "certificate")

	ask("pre-reboot", id, 200, "") // the ID belongs to no machine
	holders("token " + token.ID + ": " + id + " " + id)
	ask("steady-state", id, 200, "")
	label(keyed, registry.LockLabel, id)
	ask("pre-reboot", id, 200, "")
	holders(keyed + " 52:54:00:e8:32:53")
	ask("pre-reboot", bare, 409, "52:54:00:e8:32:53")
	ask("steady-state", id, 200, "")
	holders()
	ask("pre-reboot", id, 200, "")
	label(plain, registry.LockLabel, id)
	ask("pre-reboot", id, 409, "the same label")
	testkit.Must(t, s.registry.Forget(t.Context(), keyed))
	holders()
}

// TestLockTokens: administrators create and revoke groups' tokens.
func TestLockTokens(t *testing.T) {
	s := newSite(t, registry.Options{})
	c := s.machine(nil)
	if status, body := s.ask(c, server.Operate, "POST", s.https+"/api/v1/lock-tokens", `{"group": "workers"}`); status != 401 {
		t.Errorf("%d %s", status, body)
	}
	status, body := s.ask(c, server.Admin, "POST", s.https+"/api/v1/lock-tokens", `{"group": "workers", "seconds": 60}`)
	var made client.MadeLockToken
	testkit.Must(t, json.Unmarshal([]byte(body), &made))
	if status != 200 || made.Token == "" || made.Group != "workers" || time.Until(made.Expires) > time.Minute {
		t.Errorf("%d %s", status, body)
	}
	if status, body := s.ask(c, server.Admin, "GET", s.https+"/api/v1/lock-tokens", ""); status != 200 || !strings.Contains(body, made.ID) || strings.Contains(body, made.Token) {
		t.Errorf("%d %s", status, body)
	}
	testkit.Value(s.registry.Groups().Token(t.Context(), made.Token))(t)
	for _, want := range []int{204, 404} {
		if status, body := s.ask(c, server.Admin, "DELETE", s.https+"/api/v1/lock-tokens/"+made.ID, ""); status != want {
			t.Errorf("%d %s", status, body)
		}
	}
	_, err := s.registry.Groups().Token(t.Context(), made.Token)
	testkit.Fails(t, err, fail.Unauthorized)
	for _, body := range []string{`{"group": "a/b"}`, `{"group": ""}`, `{"group": "a", "seconds": -1}`} {
		if status, answer := s.ask(c, server.Admin, "POST", s.https+"/api/v1/lock-tokens", body); status != 400 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
}

// TestTooManyDiscoveries: too many discoveries from one address are refused with a status after which the agent tries again.
func TestTooManyDiscoveries(t *testing.T) {
	s := newSite(t, registry.Options{Limits: registry.Limits{Burst: 3, Rate: 0.01}})
	for n := range 5 {
		status, body := s.ask(&http.Client{}, server.Anybody, "POST", "/discovery", legacy(n+1, "boot-1"))
		if want := map[bool]int{true: 200, false: 429}[n < 3]; status != want {
			t.Errorf("%d: %d %s", n, status, body)
		}
	}
}

// enrol enrols a machine with a key, and returns its certificate.
func (s *site) enrol(key *ecdsa.PrivateKey) *tls.Certificate { return s.enrolAs(3, key) }

func (s *site) enrolAs(n int, key *ecdsa.PrivateKey) *tls.Certificate {
	s.t.Helper()
	var d map[string]any
	testkit.Must(s.t, json.Unmarshal([]byte(legacy(n, "boot-1")), &d))
	uuid := d["boot-info"].(map[string]any)["uuid"].(string)
	var out struct{ Certificate string }
	for sequence := range 2 {
		d["enrolment"] = facts.Enrolment{Request: testkit.Value(facts.NewRequest(key, uuid))(s.t), Sequence: int64(sequence + 1)}
		body := testkit.Value(json.Marshal(d))(s.t)
		status, answer := s.ask(&http.Client{}, server.Anybody, "POST", "/discovery", string(body), facts.SignatureHeader, testkit.Value(facts.Sign(key, body))(s.t))
		testkit.Must(s.t, json.Unmarshal([]byte(answer), &out))
		if status != 200 || (out.Certificate != "") != (sequence == 1) {
			s.t.Fatalf("%d %s", status, answer)
		}
		testkit.Value(s.registry.Approve(s.t.Context(), uuid, facts.Fingerprint(key.Public()), "ann"))(s.t)
	}
	block, _ := pem.Decode([]byte(out.Certificate))
	return &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key}
}

// TestKeyIsNeeded: once a machine has a key, requests in its name require the key.
func TestKeyIsNeeded(t *testing.T) {
	s := newSite(t, registry.Options{})
	key := testkit.Value(facts.NewKey())(t)
	mine := s.machine(s.enrol(key))
	const uuid = "b7f5f93a-b029-475f-b3a4-479ba198cb83"
	report := func(n int) string {
		return fmt.Sprintf(`{"uuid": %q, "boot_id": "boot-2", "digest": "sha256:a", "sequence": %d}`, uuid, n)
	}
	for _, path := range []string{"GET /install-authorization/uuid=" + uuid, "POST /lifecycle/coreos-install/success/uuid=" + uuid, "POST /lifecycle/ignition/mac=52-54-00-e8-32-53", "GET /lifecycle/rolling/uuid=" + uuid} {
		method, p, _ := strings.Cut(path, " ")
		if status, body := s.ask(&http.Client{}, server.Anybody, method, p, "{}"); status != 401 || !strings.Contains(body, "certificate") {
			t.Errorf("%s without a key: %d %s", path, status, body)
		}
	}
	if status, body := s.ask(&http.Client{}, server.Anybody, "POST", "/v1/pre-reboot", `{"client_params": {"id": "`+uuid+`", "group": "default"}}`, "fleet-lock-protocol", "true"); status != 401 {
		t.Errorf("%d %s", status, body)
	}
	for _, c := range []struct {
		client *http.Client
		body   string
		status int
		words  string
	}{
		{s.machine(nil), report(1), 401, "certificate"}, {mine, report(1), 200, `"up_to_date":true`}, {mine, report(1), 409, "not newer"}, {mine, report(2), 200, "true"},
		{mine, report(0), 400, "sequence"}, {mine, `{"uuid": "x"}`, 400, "sequence"}, {mine, strings.Replace(report(3), "cb83", "cb84", 1), 404, "no such machine"}, {mine, "{", 400, ""},
	} {
		if status, body := s.ask(c.client, server.Anybody, "POST", s.https+"/api/v1/report", c.body); status != c.status || !strings.Contains(body, c.words) {
			t.Errorf("%s: %d %s", c.body, status, body)
		}
	}
	testkit.Value(s.registry.Reject(t.Context(), uuid, "ann"))(t)
	another := testkit.Value(facts.NewKey())(t)
	testkit.Value(s.registry.Approve(t.Context(), uuid, "", "ann"))(t)
	s.enrol(another) // approved with another key: the old certificate is invalid now
	if status, body := s.ask(mine, server.Anybody, "POST", s.https+"/api/v1/report", report(9)); status != 401 {
		t.Errorf("%d %s", status, body)
	}
}

// TestClient uses the API as the command does.
func TestClient(t *testing.T) {
	s := newSite(t, registry.Options{})
	for n := range 5 {
		if status, body := s.ask(&http.Client{}, server.Anybody, "POST", "/discovery", legacy(n, "boot-1")); status != 200 {
			t.Fatal(body)
		}
	}
	ctx := t.Context()
	c := &client.Client{Server: s.https, HTTP: &http.Client{Transport: header{s.machine(nil).Transport}}}
	m1, uuid := "52:54:00:e8:32:51", "b7f5f93a-b029-475f-b3a4-479ba198cb81"
	_, err := c.Do(ctx, m1, "approve", client.Order{Key: "x"})
	testkit.Fails(t, err, fail.Conflict)
	for n := range 5 {
		testkit.Value(c.Do(ctx, fmt.Sprintf("52:54:00:e8:32:5%d", n), "approve", client.Order{}))(t)
	}
	for verb, o := range map[string]client.Order{"name": {Name: "a1"}, "label": {Labels: map[string]string{"rack": "r1"}}, "want": {Digest: "sha256:x"}} {
		testkit.Value(c.Do(ctx, m1, verb, o))(t)
	}
	d := testkit.Value(c.Show(ctx, "a1"))(t)
	if d.UUID != uuid || d.Labels["rack"] != "r1" || d.ApprovedBy != "an operator" || d.Facts == nil || len(d.Boots) != 1 || len(d.Events) < 4 || d.Unusable != "" {
		t.Errorf("%+v", d)
	}
	q := client.Query{}
	q.Labels, q.Limit = map[string]string{"rack": "r1"}, 1
	if page := testkit.Value(c.List(ctx, q))(t); page.Total != 1 || page.Items[0].Name != "a1" {
		t.Errorf("%+v", page)
	}
	decided := testkit.Value(c.Schedule(ctx, client.Scheduling{Wanted: registry.Wanted{Cluster: "demo", ControlPlane: registry.Pool{Replicas: 3}}, DryRun: true}))(t)
	if len(decided.Given) != 3 {
		t.Errorf("%+v", decided)
	}
	if m := testkit.Value(c.Do(ctx, "a1", "assign", client.Order{Cluster: "demo", Pool: registry.ControlPlanePool}))(t); m.Seat != 1 || m.Cluster != "demo" {
		t.Errorf("%+v", m)
	}
	testkit.Value(c.Do(ctx, "a1", "unassign", client.Order{}))(t)
	testkit.Value(c.Do(ctx, "a1", "maintenance", client.Order{Why: "fan"}))(t)
	if j := testkit.Value(c.Journal(ctx, "a1", "", ""))(t); j.BootID != "boot-1" {
		t.Errorf("%+v", j)
	}
	testkit.Value(c.Do(ctx, "a1", "label", client.Order{Labels: map[string]string{registry.LockGroup: "demo"}}))(t)
	_, _, err = s.registry.Groups().Lock(ctx, "demo", uuid)
	testkit.Must(t, err)
	if l := testkit.Value(c.Locks(ctx))(t); len(l.Items) != 1 || l.Items[0].Detail != "a1" {
		t.Errorf("%+v", l)
	}
	testkit.Must(t, c.Unlock(ctx, "reboot/demo", uuid))
	testkit.Fails(t, c.Unlock(ctx, "reboot/demo", uuid), fail.NotFound)
	_, err = c.Power(ctx, "a1", client.Switching{Action: "on"})
	testkit.Fails(t, err, fail.Refused, "machine bmc")
	testkit.Value(c.Do(ctx, "a1", "bmc", client.Order{Address: "10.9.0.11", User: "admin", Password: "hidden"}))(t)
	if p := testkit.Value(c.Power(ctx, "a1", client.Switching{Action: "on"}))(t); !p.On {
		t.Errorf("%+v", p)
	}
	if text := string(testkit.Value(json.Marshal(testkit.Value(c.Show(ctx, "a1"))(t)))(t)); strings.Contains(text, "hidden") || !strings.Contains(text, "power on") {
		t.Errorf("the password is shown, or the switching is not: %s", text)
	}
	testkit.Must(t, c.Forget(ctx, "a1"))
	_, err = c.Show(ctx, "a1")
	testkit.Fails(t, err, fail.NotFound)
	_, err = c.Do(ctx, m1, "explode", client.Order{})
	testkit.Fails(t, err, fail.NotFound)
	q.Order = "x"
	_, err = c.List(ctx, q)
	testkit.Fails(t, err, fail.Invalid)
}

// header adds a token.
type header struct{ next http.RoundTripper }

func (h header) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", tokens[server.Admin])
	return h.next.RoundTrip(r)
}

// TestDocumented compares the documented tables of routes and states with the code.
func TestDocumented(t *testing.T) {
	page := string(testkit.Value(os.ReadFile("../../../docs/reference/machine-api.md"))(t))
	for _, m := range routes.Mounts(routes.Options{}) {
		on := map[server.Listener]string{server.Boot: "HTTP", server.API: "HTTPS"}[m.On]
		if row := fmt.Sprintf("| `%s` | %s | %s |", m.Pattern, on, m.Need); !strings.Contains(page, strings.ReplaceAll(row, "|  |", "| |")) {
			t.Errorf("docs/reference/machine-api.md does not say %s", row)
		}
	}
	if n, want := strings.Count(page, "| `GET /")+strings.Count(page, "| `POST /")+strings.Count(page, "| `DELETE /"), len(routes.Mounts(routes.Options{})); n != want {
		t.Errorf("the page has %d routes, there are %d", n, want)
	}
	if !strings.Contains(page, registry.States()) {
		t.Errorf("docs/reference/machine-api.md has other states than:\n%s", registry.States())
	}
}
