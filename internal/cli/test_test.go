package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/addons"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestProofs formats results, for people and as JUnit.
func TestProofs(t *testing.T) {
	proofs := []addons.Proof{
		{Name: "api", Title: "the API answers through the endpoint", Passed: true, Detail: "https://10.77.1.10:6443", Seconds: 0.021},
		{Name: "gateway/demo-gw-1", Title: "the API answers through gateway demo-gw-1", Failure: "demo-gw-1: \x1b[31mno answer <within> 20s", Seconds: 20},
	}
	file := filepath.Join(t.TempDir(), "junit.xml")
	testkit.Must(t, writeJUnit(file, "demo", proofs))
	testkit.Golden(t, "proofs.txt", proofLines(proofs[0])+proofLines(proofs[1])+"\n"+string(testkit.Value(os.ReadFile(file))(t)))
}
