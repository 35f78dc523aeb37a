package runner

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
)

const testKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ops@example"

func TestNamesOfMachines(t *testing.T) {
	n := &network{names: map[string]string{}}
	inv := &provider.Inventory{Machines: []provider.Machine{{Name: "old", Pool: "id-old"}}}
	for _, c := range []struct{ id, hostname, want string }{
		{"id-1", "Web-1.novalocal", "web-1"},
		{"id-1", "renamed", "web-1"},    // names do not change
		{"id-2", "web-1", "id-2"},       // the name is planned for another machine
		{"id-3", "old", "id-3"},         // another machine has the name
		{"id-old", "whatever", "old"},   // an earlier runner created the machine
		{"id-4", "under_score", "id-4"}, // not a DNS label
		{"id-5", "", "id-5"},
	} {
		if got := n.nameFor(server{ID: c.id}, c.hostname, inv); got != c.want {
			t.Errorf("%s %q: %s, want %s", c.id, c.hostname, got, c.want)
		}
	}
}

func TestUserData(t *testing.T) {
	if got, err := userData("a", instance{UserData: []byte("given"), PublicKeys: map[string]string{"k": testKey}}); err != nil || string(got) != "given" {
		t.Errorf("%q %v", got, err)
	}
	if got, err := userData("a", instance{PublicKeys: map[string]string{"k": testKey + "\n"}}); err != nil || !strings.Contains(string(got), testKey) {
		t.Errorf("a key pair alone: %q %v", got, err)
	}
	if got, err := userData("a", instance{}); err != nil || !strings.HasPrefix(string(got), "#cloud-config\n") {
		t.Errorf("nothing: %q %v", got, err)
	}
}

func TestNetworksThatCanNotBeServed(t *testing.T) {
	o := Options{Log: slog.New(slog.DiscardHandler), Machines: local.Options{Root: t.TempDir(), ImageRoot: t.TempDir(), Cache: t.TempDir()}}
	for cidr, ok := range map[string]bool{"10.5.0.0/24": true, "10.5.0.0/16": true, "10.5.0.0/26": false, "203.0.113.0/24": false} {
		_, err := newNetwork(o, subnet{Network: "1b9e8a36-1111-4000-8000-000000000001", Prefix: netip.MustParsePrefix(cidr)}, nil, nil)
		if ok && err != nil || !ok && fail.KindOf(err) != fail.Invalid {
			t.Errorf("%s: %v", cidr, err)
		}
	}
	if id := clusterID("1b9e8a36-1111-4000-8000-000000000001"); id != "os-1b9e8a36" {
		t.Error(id)
	}
}

func TestWhichNetworksAreServed(t *testing.T) {
	sub := subnet{Network: "1b9e8a36-1111-4000-8000-000000000001", Name: "demo-0badc0de"}
	for want, served := range map[string]bool{
		"": true, sub.Network: true, sub.Name: true, "demo-*": true, "*": true, "demo": false, "demo-": false, "dem?-*": false, "other-*": false,
	} {
		var o Options
		if want != "" {
			o.Networks = []string{want, "another"}
		}
		if o.serves(sub) != served {
			t.Errorf("%q: %v", want, !served)
		}
	}
	ofTest := subnet{Network: sub.Network, Name: TestPrefix + "1"}
	if all, own := (&Options{}), (&Options{Networks: []string{sub.Network}}); all.serves(ofTest) || !own.serves(ofTest) {
		t.Error("the bed's runner serves a test's network")
	}
}

func TestStateIsRemembered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state.json")
	s, err := readState(file)
	if err != nil {
		t.Fatal(err)
	}
	sub := subnet{Network: "n", Name: "x", Prefix: netip.MustParsePrefix("10.5.0.0/24")} // without a gateway
	if err := s.change(func() { s.Networks, s.Table = []subnet{sub}, "t" }); err != nil {
		t.Fatal(err)
	}
	again, err := readState(file)
	if err != nil || len(again.Networks) != 1 || again.Networks[0] != sub || again.Table != "t" {
		t.Errorf("%+v %v", again, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readState(file); err == nil {
		t.Error("a damaged file is read as an empty one")
	}
}

func TestOneRunnerPerBed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "d", "lock")
	first, err := takeLock(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := takeLock(file); fail.KindOf(err) != fail.Conflict {
		t.Errorf("a second lock: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := takeLock(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestProcessesAreNotMixedUp(t *testing.T) {
	me, err := processOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	other := me
	other.Start--
	if !me.alive() || other.alive() || (process{}).alive() {
		t.Error("alive")
	}
	if err := errors.Join(other.end(), process{}.end()); err != nil { // an empty process must not end this test
		t.Error(err)
	}
}

func TestOldConsolesGo(t *testing.T) {
	dir := t.TempDir()
	for name, age := range map[string]time.Duration{"old.log": 48 * time.Hour, "young.log": time.Minute, "old.txt": 48 * time.Hour} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := pruneConsoles(dir, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 {
		t.Errorf("%v %v", left, err)
	}
}
