package remote

import (
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestKnown reads what ssh-keyscan writes.
func TestKnown(t *testing.T) {
	const ed = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv"
	k := testkit.Value(ParseKnown("known", []byte("192.0.2.1 "+ed+"\n[192.0.2.2]:2222 "+ed+"\n")))(t)
	for _, c := range []struct {
		address string
		port    int
		want    []string
	}{{"192.0.2.1", 22, []string{ed}}, {"192.0.2.1", 2222, nil}, {"192.0.2.2", 2222, []string{ed}}, {"192.0.2.3", 22, nil}} {
		if got := testkit.Value(k.Keys(c.address, c.port))(t); !slices.Equal(got, c.want) {
			t.Errorf("%s:%d has %q, want %q", c.address, c.port, got, c.want)
		}
	}
	_, err := ParseKnown("known", []byte("192.0.2.1 nonsense\n"))
	testkit.Fails(t, err, fail.Invalid, "known: read the known host keys", "known:1")
}
