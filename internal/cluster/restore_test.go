package cluster

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRestoreIsKnownUntilItsEnd: a restore that is interrupted after the API has answered is still one that the same command goes on with. The
// snapshot is gone by then, or goes at the end.
func TestRestoreIsKnownUntilItsEnd(t *testing.T) {
	l := newLab(t, document(t, 1, 0, 1))
	l.stateDir = t.TempDir()
	testkit.Must(t, l.Restore(t.Context(), "20261124T032115Z-901c", "v1.37.2", time.Now()))
	file := l.snapshotFile(l.restoring())
	testkit.Must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	testkit.Must(t, os.WriteFile(file, nil, 0o600))

	testkit.Must(t, l.facts.Set(t.Context(), memory.Bootstrapped, "true")) // and killed
	if got := Restores(l.rec); got != "20261124T032115Z-901c" {
		t.Errorf("a cluster that serves and lacks its workers is restored from %q", got)
	}
	l.leftOut = true
	testkit.Must(t, l.Converged(t.Context()))
	if Restores(l.rec) == "" {
		t.Error("a part of the cluster ends its restore")
	}
	l.leftOut = false
	testkit.Must(t, l.Converged(t.Context()))
	if got := Restores(l.rec); got != "" {
		t.Errorf("a cluster that is as its document says is restored from %q", got)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the snapshot is left: %v", err)
	}
}
