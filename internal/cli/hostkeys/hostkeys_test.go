package hostkeys

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
)

func TestMachines(t *testing.T) {
	scan := func(_ context.Context, address string, port int) (string, string, error) {
		if address == "10.0.0.9" || port != 22 {
			return "", "", fail.New(fail.Unreachable, "ask for the SSH host key").At(address)
		}
		return "ssh-ed25519 " + address, "SHA256:of-" + address, nil
	}
	yes := func(string) error { return nil }
	var shown strings.Builder
	got, err := Machines(t.Context(), []string{"10.0.0.1", "10.0.0.2", "gateway=10.0.0.3", "worker=10.0.0.4"}, 1, scan, &shown, yes)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range got {
		list = append(list, m.Role+" "+m.HostKey)
		if !strings.Contains(shown.String(), "SHA256:of-"+m.Address) {
			t.Errorf("the fingerprint of %s is not shown", m.Address)
		}
	}
	if want := "gateway ssh-ed25519 10.0.0.3,control-plane ssh-ed25519 10.0.0.1,worker ssh-ed25519 10.0.0.2,worker ssh-ed25519 10.0.0.4"; strings.Join(list, ",") != want {
		t.Errorf("got %v", list)
	}
	if _, err := Machines(t.Context(), []string{"10.0.0.1", "10.0.0.9"}, 1, scan, &shown, yes); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("a host that does not answer: %v", err)
	}
	no := errors.New("no")
	if _, err := Machines(t.Context(), []string{"10.0.0.1"}, 1, scan, &shown, func(string) error { return no }); !errors.Is(err, no) {
		t.Errorf("fingerprints that are wrong: %v", err)
	}
	for _, bad := range []string{"host.example", "10.0.0", "::1", "etcd=10.0.0.1", "=10.0.0.1", "worker=", ""} {
		if _, err := Parse([]string{bad}, 1); fail.KindOf(err) != fail.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if _, err := Parse([]string{"10.0.0.1", "worker=10.0.0.1"}, 1); fail.KindOf(err) != fail.Invalid {
		t.Errorf("an address twice: %v", err)
	}
}
