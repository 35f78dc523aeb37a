//go:build integration

package rootfs

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPlaceRefusesWhatWasTamperedWith lets root place a program from another user's library.
func TestPlaceRefusesWhatWasTamperedWith(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	testkit.Must(t, os.WriteFile(src, []byte("a program"), 0o600))
	testkit.Must(t, os.Chown(src, 65534, 65534))
	sum := sha256.Sum256([]byte("a program"))
	want := hex.EncodeToString(sum[:])
	testkit.Must(t, place(src, "a program", want, dst))
	var st unix.Stat_t
	testkit.Must(t, unix.Stat(dst, &st))
	if st.Uid != 0 || st.Mode&0o777 != 0o755 || st.Nlink != 1 {
		t.Errorf("owner %d, mode %o, %d links: the library's owner could still change it", st.Uid, st.Mode&0o777, st.Nlink)
	}
	testkit.Must(t, os.Remove(dst))
	testkit.Must(t, os.WriteFile(src, []byte("b program"), 0o600))
	testkit.Fails(t, place(src, "a program", want, dst), fail.Refused, "use a program", want, "naupegos bundle verify")
	if _, err := os.Stat(dst); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the refused blob was not removed: %v", err)
	}
}
