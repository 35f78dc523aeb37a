package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// stumbles are the 27 places at which a first-time user stumbled (the usability review of 2026-11-28, by its numbers), each with the tests that keep it
// mended: a directory of the tree and a test function, or "script" and a script of testdata/script.
var stumbles = []struct {
	what  string
	tests []string
}{
	{"what can't succeed fails before any work on bundles", []string{"script foresee", "test/e2e TestFirstMinutes"}},
	{"history names the verb, its arguments and its subject", []string{"internal/operate TestAbout", "internal/plan TestHeading"}},
	{"--server is honoured or refused, never ignored", []string{"internal/cli TestEveryVerbWithAServer", "script afar"}},
	{"repair takes a machine that is off at once", []string{"internal/cluster TestRepairOff", "internal/cluster/upkeep TestOff"}},
	{"status tells drifted from unhealthy, with the cause and the command", []string{"internal/cluster/report TestCauses"}},
	{"plans show content and fold equal steps", []string{"internal/plan/show TestPlanShowsContent", "internal/plan/show TestFoldedOrNot", "internal/cluster TestPlanShowsLabelsAndDocument"}},
	{"an upgrade ends with its evidence and the next step", []string{"internal/plan TestEvidence"}},
	{"the end of an apply counts bundle and cluster apart, and hints only once", []string{"test/e2e TestFirstMinutes"}},
	{"destroy asks for the cluster's name", []string{"internal/cli TestAgree", "internal/web TestDestroyNeedsTheName", "internal/operate TestProtected"}},
	{"a misspelt command is reported before its flags", []string{"script mistakes", "internal/cli/verbs TestMisspelt"}},
	{"--wait and --timeout as in kubectl", []string{"internal/cli/verbs TestWaiting"}},
	{"output formats of kubectl; numbers are numbers", []string{"internal/cli/output TestFormats"}},
	{"ssh runs one string as ssh does", []string{"internal/cli/shell TestSplit", "test/e2e TestFirstMinutes"}},
	{"kubectl works on control-plane machines", []string{"test/e2e TestFirstMinutes"}},
	{"logs shows journals; support writes the archive", []string{"internal/cli/shell TestMerged", "internal/agent/logs TestFollow"}},
	{"short names of machines; suggestions for clusters", []string{"internal/cluster/wanted TestMachineNamed", "script nodes", "script use"}},
	{"a gateway is no node, and the message says so", []string{"script nodes"}},
	{"one flag has one meaning; --dry-run everywhere", []string{"internal/cli/verbs TestFormerFlags", "script afar"}},
	{"kubeconfigs have one name; durations take days", []string{"internal/kube/userconf TestMerge", "internal/cli/verbs TestDurations"}},
	{"a release without its v is accepted", []string{"internal/cli/verbs TestReleases"}},
	{"init checks each answer, and fetches host keys", []string{"script init"}},
	{"tables fit narrow terminals; status has colours", []string{"internal/cli/watch TestStatusFits", "internal/cli/watch TestClustersFit", "internal/cli/watch TestStatusColours"}},
	{"help leaves global flags to options, and wraps", []string{"script mistakes", "internal/cli/verbs TestWrap"}},
	{"a notice or an advice is printed once", []string{"internal/fail TestAdviceOnce", "script foresee"}},
	{"explain describes each field", []string{"script help"}},
	{"lists show stable, printable cells", []string{"internal/cli TestNodeTable", "internal/cli TestBundleVerbs"}},
	{"values of flags are completed", []string{"internal/cli/verbs TestComplete", "script help"}},
}

// TestStumbles: each stumble names tests that exist.
func TestStumbles(t *testing.T) {
	if len(stumbles) != 27 {
		t.Errorf("the review lists 27 stumbles, not %d", len(stumbles))
	}
	for i, s := range stumbles {
		for _, test := range s.tests {
			if !exists(t, test) {
				t.Errorf("stumble %d (%s): there is no %s", i+1, s.what, test)
			}
		}
	}
	if exists(t, "internal/plan TestNever") || exists(t, "script never") {
		t.Error("a test that does not exist was found")
	}
}

func exists(t *testing.T, test string) bool {
	dir, name, _ := strings.Cut(test, " ")
	if dir == "script" {
		_, err := os.Stat(filepath.Join("testdata", "script", name+".txtar"))
		return err == nil
	}
	for _, file := range testkit.Value(filepath.Glob(filepath.Join("..", "..", dir, "*_test.go")))(t) {
		if strings.Contains(string(testkit.Value(os.ReadFile(file))(t)), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
