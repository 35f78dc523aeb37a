package serving

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestStorePing: the health of a real store in a file shows what becomes of the file.
func TestStorePing(t *testing.T) {
	dir := t.TempDir()
	st := testkit.Value(store.Open(t.Context(), store.Location{Dir: dir}))(t)
	defer st.Close()
	ping, file := storePing(st), filepath.Join(dir, store.DatabaseFile)
	testkit.Must(t, ping(t.Context()))
	text := testkit.Value(os.ReadFile(file))(t)
	testkit.Must(t, os.Truncate(file, 0))
	if err := ping(t.Context()); err == nil {
		t.Error("an empty file is well")
	}
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	testkit.Must(t, os.Rename(file, file+".old"))
	testkit.Fails(t, ping(t.Context()), fail.Internal, "look at the store's file")
	testkit.Must(t, os.WriteFile(file, text, 0o600))
	testkit.Fails(t, ping(t.Context()), fail.Internal, "was replaced")
}
