//go:build integration

package testkit

import (
	"bytes"
	"fmt"
	"os/exec"
	"testing"
)

// TestWatchArguments starts programs that end at once, which polling would mostly miss.
func TestWatchArguments(t *testing.T) {
	before := exec.Command("cat", "-", "marker-before")
	in := Value(before.StdinPipe())(t)
	Must(t, before.Start())
	seen := WatchArguments(t)
	const all = 100
	for i := range all {
		Must(t, exec.Command("true", fmt.Sprintf("marker-%d.", i)).Run())
	}
	got := seen()
	Must(t, in.Close())
	_ = before.Wait() // fails: the file marker-before does not exist
	if !bytes.Contains(got, []byte("marker-before")) {
		t.Error("a program that ran before is missing")
	}
	found := 0
	for i := range all {
		if bytes.Contains(got, fmt.Appendf(nil, "marker-%d.", i)) {
			found++
		}
	}
	t.Logf("%d of %d programs that ended at once were seen", found, all)
	if found < all/10 { // an idle host finds nearly all
		t.Errorf("only %d of %d programs that ended at once were seen", found, all)
	}
}
