package remote

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestKnown reads what ssh-keyscan writes.
func TestKnown(t *testing.T) {
	const ed = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGs5yh3xvjLZdyRSmj2UOqGqQJ8gRlqDBFDM3lGj9bNv"
	file := filepath.Join(t.TempDir(), "known_hosts")
	write := func(text string) Known {
		testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
		return testkit.Value(ReadKnown(file))(t)
	}
	k := write("192.0.2.1 " + ed + "\n[192.0.2.2]:2222 " + ed + "\n")
	for _, c := range []struct {
		address string
		port    int
		want    []string
	}{{"192.0.2.1", 22, []string{ed}}, {"192.0.2.1", 2222, nil}, {"192.0.2.2", 2222, []string{ed}}, {"192.0.2.3", 22, nil}} {
		if got := testkit.Value(k.Keys(c.address, c.port))(t); !slices.Equal(got, c.want) {
			t.Errorf("%s:%d has %q, want %q", c.address, c.port, got, c.want)
		}
	}
	_, err := ReadKnown(filepath.Join(t.TempDir(), "nowhere"))
	testkit.Fails(t, err, fail.Invalid, "known host keys")
	testkit.Must(t, os.WriteFile(file, []byte("192.0.2.1 nonsense\n"), 0o600))
	_, err = ReadKnown(file)
	testkit.Fails(t, err, fail.Invalid, "known host keys")
}
