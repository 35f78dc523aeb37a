package cluster

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/nodes"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestConsentsAreKnown compares Consents with the constants of the packages that plan: --consent refuses a name that it does not know.
func TestConsentsAreKnown(t *testing.T) {
	named := regexp.MustCompile(`(?m)^(?:const\s+|\t)(Consent\w+)\s+=\s+"([^"]+)"`)
	known, found := append(Consents(), backups.ConsentRestore, nodes.ConsentQuorum), 0 // naupegos backup restore and machine bind their own
	for _, root := range []string{".", "../provider"} {
		testkit.Must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			for _, m := range named.FindAllStringSubmatch(string(testkit.Value(os.ReadFile(path))(t)), -1) {
				found++
				if !slices.Contains(known, m[2]) {
					t.Errorf("%s: --consent does not know %s, %q", path, m[1], m[2])
				}
			}
			return nil
		}))
	}
	if found < 8 {
		t.Errorf("only %d consents were found", found)
	}
}
