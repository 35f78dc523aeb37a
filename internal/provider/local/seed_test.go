package local

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

const testKey = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ops@example"

func testSeed(t *testing.T) seed {
	t.Helper()
	r := record{Cluster: "demo-1a2b3c4d", Name: "demo-cp-1", Address: "10.77.3.21/24", Gateway: "10.77.3.1"}
	s, err := renderSeed(r, "demo-1a2b3c4d-demo-cp-1-00c0ffee", nil, []string{testKey}, []netip.Addr{netip.MustParseAddr("192.0.2.53")})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSeed(t *testing.T) {
	s := testSeed(t)
	testkit.Golden(t, "meta-data.golden", string(s.metaData))
	testkit.Golden(t, "network-config.golden", string(s.networkConfig))
	testkit.Golden(t, "user-data.golden", string(s.userData))
}

// TestSeedSchema checks the user-data with cloud-init if it is installed; the integration tests boot with it anyway.
func TestSeedSchema(t *testing.T) {
	if _, err := exec.LookPath("cloud-init"); err != nil {
		t.Skip("cloud-init is not installed")
	}
	file := filepath.Join(t.TempDir(), "user-data")
	if err := os.WriteFile(file, testSeed(t).userData, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cloud-init", "schema", "--config-file", file).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestSeedKeepsGivenUserData(t *testing.T) {
	s, err := renderSeed(record{Name: "a"}, "i", []byte("#cloud-config\n{}\n"), nil, nil)
	if err != nil || string(s.userData) != "#cloud-config\n{}\n" {
		t.Errorf("%q %v", s.userData, err)
	}
}
