package routes_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/registry/facts"
	"github.com/naupegos/naupegos/internal/registry/order"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/routes/client"
	"github.com/naupegos/naupegos/internal/testkit"
)

// orderFor returns a valid order.
func orderFor(uuid, host string) *order.Order {
	sum := strings.Repeat("ab", 32)
	b := order.Blob{Path: "/assets/systems/x/root.zst", SHA256: sum, Size: 1, RawSHA256: sum, RawSize: 1}
	return &order.Order{Schema: order.Schema, UUID: uuid, Hostname: host, System: order.System{ID: "sha256:" + sum, Root: b, Head: b}}
}

// TestInstallOrder: an order is only for the machine's own key; an installation is authorized, renewed, and ends.
func TestInstallOrder(t *testing.T) {
	s := newSite(t, registry.Options{Installs: 1, InstallRetries: 2})
	const uuid = "b7f5f93a-b029-475f-b3a4-479ba198cb83"
	path := s.https + "/api/v1/install/" + uuid
	ask := func(c *http.Client, method, address, body string, status int, words string) string {
		t.Helper()
		got, text := s.ask(c, server.Anybody, method, address, body)
		if got != status || !strings.Contains(text, words) {
			t.Errorf("%s %s: %d %s, want %d %s", method, address, got, text, status, words)
		}
		return text
	}
	nobody := s.machine(nil)
	mine := s.machine(s.enrol(testkit.Value(facts.NewKey())(t)))
	ask(mine, "POST", path, "", 404, "machine install")
	ask(mine, "GET", s.https+"/api/v1/order/"+uuid, "", 404, "")

	o := orderFor(uuid, "m-1")
	raw := string(testkit.Value(json.Marshal(o))(t))
	at := s.https + "/api/v1/machines/" + uuid + "/order"
	for _, c := range []struct {
		role   server.Role
		body   string
		status int
	}{{server.Anybody, raw, 401}, {server.Operate, `{"schema":7}`, 400}, {server.Operate, raw, 200}, {server.Operate, strings.Replace(raw, "cb83", "cb8b", 1), 400}} {
		if status, text := s.ask(nobody, c.role, "POST", at, c.body); status != c.status {
			t.Errorf("%s %.40s: %d %s", c.role, c.body, status, text)
		}
	}
	stranger := s.machine(s.enrolAs(4, testkit.Value(facts.NewKey())(t)))
	for _, c := range []*http.Client{nobody, stranger} {
		ask(c, "GET", s.https+"/api/v1/order/"+uuid, "", 401, "")
		ask(c, "POST", path, "", 401, "")
		ask(c, "POST", path+"/progress", `{"stage":"write root"}`, 401, "")
		ask(c, "POST", path+"/finish", `{"ok":true}`, 401, "")
	}
	if status, _ := s.ask(&http.Client{}, server.Anybody, "GET", "/api/v1/order/"+uuid, ""); status != 404 {
		t.Errorf("the order is at plain HTTP: %d", status)
	}
	ask(mine, "POST", path+"/progress", `{"stage":"write root"}`, 409, "has ended")
	var g struct{ Order *order.Order }
	testkit.Must(t, json.Unmarshal([]byte(ask(mine, "POST", path, "", 200, "m-1")), &g))
	if g.Order.Digest() != o.Digest() {
		t.Errorf("%+v", g)
	}
	ask(mine, "POST", path+"/progress", `{"stage":"write root","done":1,"total":2}`, 200, "expires")
	ask(mine, "POST", path+"/progress", `{"stage":"<script>"}`, 400, "stage")
	c := &client.Client{Server: s.https, HTTP: &http.Client{Transport: header{nobody.Transport}}}
	if m := testkit.Value(c.Show(t.Context(), uuid))(t); m.Progress == nil || m.Progress.Stage != "write root" || m.Progress.Total != 2 || m.Wanted != o.Digest() || !m.Seen.Equal(m.Progress.At) {
		t.Errorf("%+v", m)
	}
	ask(mine, "POST", path+"/finish", `{"ok":false,"log":["the disk is broken"]}`, 200, "false")
	ask(mine, "POST", path, "", 200, "")
	ask(mine, "POST", path+"/finish", `{"ok":false,"log":["again"]}`, 200, "false")
	ask(mine, "POST", path, "", 403, "failed 2 times") // limited
	testkit.Value(s.registry.Reinstall(t.Context(), uuid, nil, "ann"))(t)
	ask(mine, "POST", path, "", 200, "")
	ask(mine, "POST", path+"/finish", `{"ok":true,"host_keys":["no key"]}`, 400, "host key")
	hostKey := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHUFdNl0N0s0dZ9AMsrFq6tAzuFjkRNx7cX9rFq3rT3x"
	ask(mine, "POST", path+"/finish", `{"ok":true,"host_keys":["`+hostKey+`"],"log":["done"]}`, 200, "true")
	ask(mine, "POST", path, "", 403, "reinstall")
	if j := testkit.Value(s.registry.Journal(t.Context(), uuid, "", registry.InstallJournal))(t); len(j.Lines) != 1 || j.Lines[0] != "done" {
		t.Errorf("%+v", j)
	}
	report := `{"uuid":"` + uuid + `","boot_id":"b","digest":"` + o.Digest() + `","sequence":%d,"slot":"%s","refused":"%s"}`
	send := func(n, slot, refused string) string {
		return strings.Replace(strings.Replace(strings.Replace(report, "%d", n, 1), "%s", slot, 1), "%s", refused, 1)
	}
	ask(mine, "POST", s.https+"/api/v1/report", send("1", "a", ""), 200, `"up_to_date":true`)
	ask(mine, "POST", s.https+"/api/v1/report", send("2", "c", ""), 400, "slot")
	ask(mine, "POST", s.https+"/api/v1/report", send("3", "b", "sha256:bad"), 200, "")
	m := testkit.Value(s.registry.Machine(t.Context(), uuid))(t)
	if r := m.Record; r.Slot != "b" || r.Refused != "sha256:bad" || len(r.HostKeys) != 1 || r.HostKeys[0] != hostKey || r.Progress != nil {
		t.Errorf("%+v", r)
	}
	testkit.Value(s.registry.SetOrder(t.Context(), uuid, nil, "ann"))(t)
	_, err := s.registry.Ordered(testkit.Value(s.registry.Machine(t.Context(), uuid))(t))
	testkit.Fails(t, err, fail.NotFound)
}
