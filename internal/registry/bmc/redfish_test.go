package bmc

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/bmc/redfishtest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// computer is a machine that is off.
type computer struct {
	mu   sync.Mutex
	on   bool
	done []string
	hang bool // it does not do what it is told
}

func (c *computer) On() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.on }

func (c *computer) Reset(kind, from string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done = append(c.done, strings.TrimSpace(kind+" "+from))
	if !c.hang {
		c.on = kind != "ForceOff" && kind != "GracefulShutdown"
	}
	return nil
}

// did returns the machine's actions since the last call.
func (c *computer) did() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.Join(c.done, ", ")
	c.done = nil
	return text
}

const uuid = "00112233-4455-6677-8899-aabbccddeeff"

func redfishService(t *testing.T, o redfishtest.Options) (*computer, *redfishtest.Service, Access) {
	t.Helper()
	m := &computer{}
	o.User, o.Password = "admin", testkit.Secret
	s := redfishtest.Start(t, m, o)
	t.Cleanup(func() {
		if n := s.Open(); n != 0 {
			t.Errorf("%d sessions are open", n)
		}
	})
	return m, s, Access{Protocol: ProtocolRedfish, Address: s.Address(), User: "admin", Password: []byte(testkit.Secret), Fingerprint: s.Fingerprint(), UUID: uuid}
}

// all are the ResetTypes that most services have.
var all = []string{"On", "ForceOff", "GracefulShutdown", "ForceRestart", "PowerCycle"}

func TestRedfish(t *testing.T) {
	for name, o := range map[string]redfishtest.Options{
		"says nothing": {}, "says what it has": {Resets: all, Targets: []string{"None", "Pxe", "Hdd"}}, "as info": {Resets: all, AsInfo: true},
		"tasks": {Tasks: true}, "settings": {Settings: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, s, a := redfishService(t, o)
			for _, step := range []struct {
				action, boot string
				on           bool
				did          string
			}{
				{"status", "", false, ""}, {"off", "", false, ""}, {"on", FromNetwork, true, "On Pxe"}, {"on", "", true, ""}, {"status", "", true, ""},
				{"reset", FromDisk, true, "ForceRestart Hdd"}, {"cycle", "", true, "PowerCycle"}, {"shutdown", "", false, "GracefulShutdown"},
				{"shutdown", "", false, ""}, {"cycle", "", true, "On"}, {"off", "", false, "ForceOff"},
			} {
				on, err := Controllers{}.Power(t.Context(), a, step.action, step.boot)
				if did := m.did(); err != nil || on != step.on || did != step.did {
					t.Errorf("%s from %q: %v, %v; the machine was told %q", step.action, step.boot, on, err, did)
				}
			}
			_, err := Controllers{}.Power(t.Context(), a, "explode", AsUsual)
			testkit.Fails(t, err, fail.Invalid, "shutdown")
			if n := s.Open(); n != 0 {
				t.Errorf("%d sessions are open", n)
			}
		})
	}
}

func TestRedfishWithout(t *testing.T) {
	m, _, a := redfishService(t, redfishtest.Options{Resets: []string{"ForceOn", "ForceOff"}, Targets: []string{"None", "UefiHttp"}})
	testkit.Value(Controllers{}.Power(t.Context(), a, "on", FromNetwork))(t)
	testkit.Value(Controllers{}.Power(t.Context(), a, "cycle", AsUsual))(t)
	if did := m.did(); did != "ForceOn UefiHttp, ForceOff, ForceOn" {
		t.Errorf("the machine was told %q", did)
	}
	_, err := Controllers{}.Power(t.Context(), a, "reset", AsUsual)
	testkit.Fails(t, err, fail.Refused, "ForceOn")
	_, err = Controllers{}.Power(t.Context(), a, "reset", FromDisk)
	testkit.Fails(t, err, fail.Refused, "disk", "UefiHttp")
}

func TestRedfishTrust(t *testing.T) {
	_, s, a := redfishService(t, redfishtest.Options{})
	status := func(change func(*Access)) error {
		b := a
		change(&b)
		_, err := Controllers{}.Power(t.Context(), b, "status", AsUsual)
		return err
	}
	testkit.Must(t, status(func(b *Access) { b.Fingerprint, b.Authorities = "", s.Authorities() }))
	testkit.Must(t, status(func(b *Access) { b.Fingerprint = strings.ToUpper(a.Fingerprint) }))
	s.Seen()
	testkit.Fails(t, status(func(b *Access) { b.Fingerprint = "" }), fail.Unauthorized, a.Fingerprint)
	testkit.Fails(t, status(func(b *Access) { b.Fingerprint = "sha256:" + strings.Repeat("0", 64) }), fail.Unauthorized, a.Fingerprint)
	if seen := s.Seen(); len(seen) > 0 {
		t.Errorf("a service that is not trusted was asked %v", seen)
	}
	testkit.Fails(t, status(func(b *Access) { b.Fingerprint = "sha256:12" }), fail.Invalid, "fingerprint")
	testkit.Fails(t, status(func(b *Access) { b.Authorities = s.Authorities() }), fail.Invalid, "not by both")
	testkit.Fails(t, status(func(b *Access) { b.Fingerprint, b.Authorities = "", "nonsense" }), fail.Invalid, "PEM")
	testkit.Fails(t, status(func(b *Access) { b.Protocol = "" }), fail.Invalid, "--protocol redfish")
	testkit.Fails(t, status(func(b *Access) { b.Protocol = "telnet" }), fail.Invalid, "telnet")
	testkit.Fails(t, status(func(b *Access) { b.Address = "x@" + b.Address }), fail.Invalid, "address")
	testkit.Fails(t, status(func(b *Access) { b.Address = "127.0.0.1:1" }), fail.Unreachable)
	a.Password = []byte(testkit.Secret + "-wrong") // the service repeats it
	testkit.Fails(t, status(func(*Access) {}), fail.Unauthorized, "password")
}

func TestRedfishBusy(t *testing.T) {
	m, s, a := redfishService(t, redfishtest.Options{Tasks: true})
	s.Busy(3, "0")
	on := testkit.Value(Controllers{}.Power(t.Context(), a, "on", AsUsual))(t)
	if did := m.did(); !on || did != "On" {
		t.Errorf("the machine is on: %v; it was told %q", on, did)
	}
	s.Busy(1000, "3600")
	_, err := Controllers{}.Power(t.Context(), a, "off", AsUsual)
	testkit.Fails(t, err, fail.NotReady, "busy")
	s.Busy(0, "")
}

func TestRedfishETag(t *testing.T) {
	m, s, a := redfishService(t, redfishtest.Options{})
	s.Stale(2) // another client was faster twice
	testkit.Value(Controllers{}.Power(t.Context(), a, "on", FromNetwork))(t)
	if did := m.did(); did != "On Pxe" {
		t.Errorf("the machine was told %q", did)
	}
	s.Stale(100)
	_, err := Controllers{}.Power(t.Context(), a, "reset", FromNetwork)
	testkit.Fails(t, err, fail.Refused, "412")
	if did := m.did(); did != "" {
		t.Errorf("the machine was told %q", did)
	}
}

func TestRedfishTaskFails(t *testing.T) {
	_, _, a := redfishService(t, redfishtest.Options{Tasks: true, FailTasks: true})
	_, err := Controllers{}.Power(t.Context(), a, "on", AsUsual)
	testkit.Fails(t, err, fail.Refused, "power supply")
}

// TestRedfishHangs: a machine ignores an action; the time limit ends the action, and the session is closed.
func TestRedfishHangs(t *testing.T) {
	m, _, a := redfishService(t, redfishtest.Options{})
	m.hang = true
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := Controllers{}.Power(ctx, a, "on", AsUsual)
	testkit.Fails(t, err, fail.NotReady, "event log")
}

func TestRedfishSystems(t *testing.T) {
	const turned = "33221100-5544-7766-8899-AABBCCDDEEFF" // the same, in the form of some firmware
	_, _, a := redfishService(t, redfishtest.Options{Machines: map[string]string{"Blade.1": "f2a1bb00-0000-0000-0000-000000000001", "Blade.2": turned}})
	testkit.Value(Controllers{}.Power(t.Context(), a, "status", AsUsual))(t)
	a.System = "Blade.1"
	testkit.Value(Controllers{}.Power(t.Context(), a, "status", AsUsual))(t)
	a.System, a.UUID = "", "f2a1bb00-0000-0000-0000-000000000003"
	_, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
	testkit.Fails(t, err, fail.NotFound, "Blade.1, Blade.2", "--system")
}

// TestRedfishElsewhere: a service tries to make the client send the session's token to another host.
func TestRedfishElsewhere(t *testing.T) {
	_, s, a := redfishService(t, redfishtest.Options{Elsewhere: "@127.0.0.1:1/"})
	_, err := Controllers{}.Power(t.Context(), a, "on", AsUsual)
	testkit.Fails(t, err, fail.Refused, "not its own")
	if !slices.ContainsFunc(s.Seen(), func(r string) bool { return strings.HasPrefix(r, "DELETE ") }) {
		t.Error("the session was left open")
	}
}
