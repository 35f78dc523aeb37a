package userdir

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestPlaces(t *testing.T) {
	all := map[string]struct {
		find  func() (string, error)
		below string
	}{"XDG_CONFIG_HOME": {Config, ".config"}, "XDG_STATE_HOME": {State, ".local/state"}, "XDG_CACHE_HOME": {Cache, ".cache"}}
	for variable, place := range all {
		t.Setenv("HOME", "/home/ann")
		for value, want := range map[string]string{
			"/srv/x": "/srv/x/naupegos", "": "/home/ann/" + place.below + "/naupegos", "x": "/home/ann/" + place.below + "/naupegos", "../x": "/home/ann/" + place.below + "/naupegos",
		} {
			t.Setenv(variable, value)
			if got, err := place.find(); got != want || err != nil {
				t.Errorf("%s=%q: %q, %v; want %q", variable, value, got, err, want)
			}
		}
		t.Setenv(variable, "")
		for _, home := range []string{"", "ann", "./ann"} {
			t.Setenv("HOME", home)
			if got, err := place.find(); err == nil {
				t.Errorf("with HOME=%q, without %s: %q", home, variable, got)
			}
		}
	}
}

// TestMakeForUser: directories that root makes on the way belong to the home's owner.
func TestMakeForUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to a user")
	}
	home := filepath.Join(t.TempDir(), "home")
	testkit.Must(t, os.Mkdir(home, 0o755))
	testkit.Must(t, os.Chown(home, 65534, 65534))
	for range 2 {
		testkit.Must(t, Make(filepath.Join(home, ".local", "state", "naupegos"), 0o700))
	}
	for path, uid := range map[string]uint32{".local": 65534, ".local/state": 65534, ".local/state/naupegos": 0} {
		info := testkit.Value(os.Stat(filepath.Join(home, path)))(t)
		if got := info.Sys().(*syscall.Stat_t).Uid; got != uid || info.Mode().Perm() != 0o700 {
			t.Errorf("%s belongs to %d, mode %04o", path, got, info.Mode().Perm())
		}
	}
	testkit.Must(t, os.WriteFile(filepath.Join(home, "file"), nil, 0o600))
	if err := Make(filepath.Join(home, "file", "a", "b"), 0o700); err == nil {
		t.Error("directories below a file were made")
	}
}
