package laying

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestSalvageNeedsRoom: the disk of the last member is often full, which is how its cluster was lost. Reading its data is refused with the figures,
// before etcd is stopped, and a copy that a killed run left counts as free.
func TestSalvageNeedsRoom(t *testing.T) {
	for name, c := range map[string]struct {
		free, want string // KiB
	}{
		"full":          {"0", "where 0 MiB are free: make room"},
		"half of it":    {"3000", "where 2 MiB are free: make room"},
		"room for both": {"9000", "etcd does not start with this data"}, // there is no etcd here
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			p := Place{Tools: filepath.Join(dir, "tools"), Data: filepath.Join(dir, "data"), Manifests: filepath.Join(dir, "manifests"), Run: "1"}
			bin := filepath.Join(dir, "bin")
			for _, d := range []string{p.Tools, p.Data + "/member", p.Data + "/salvaging-1", p.Manifests, bin} {
				testkit.Must(t, os.MkdirAll(d, 0o700))
			}
			testkit.Must(t, os.WriteFile(p.Data+"/member/db", []byte(strings.Repeat("x", 2<<20)), 0o600))
			testkit.Must(t, os.WriteFile(p.Manifests+"/etcd.yaml", nil, 0o600))
			df := "#!/bin/sh\nif [ -e " + p.Data + "/salvaging-1 ]; then echo measured before the old copy was removed >&2; exit 1; fi\n" +
				"echo Filesystem 1024-blocks Used Available Capacity Mounted on\necho /dev/sda1 1 1 " + c.free + " 99% /\n"
			testkit.Must(t, os.WriteFile(bin+"/df", []byte(df), 0o755))
			argv := p.Salvage()
			cmd := exec.Command(argv[0], argv[1:]...)
			cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), c.want) {
				t.Errorf("%v: %s, want %q", err, out, c.want)
			}
			_, err = os.Stat(p.Manifests + "/etcd.yaml")
			if stopped := err != nil; stopped != (name == "room for both") {
				t.Errorf("etcd was stopped: %v", stopped)
			}
		})
	}
}
