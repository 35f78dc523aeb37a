package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

const foreseen = `NOTE: This is only a simulation!
Inst linux-image-amd64 [6.1.76-1] (6.1.90-1 Debian:12.5/stable [amd64]) []
Inst linux-image-6.1.0-21-amd64 (6.1.90-1 Debian:12.5/stable [amd64])
Inst libc6:i386 [2.36-9+deb12u3] (2.36-9+deb12u7 Debian:12.5/stable [i386])
Inst containerd [1.6] (1.7 Debian:12.5/stable [amd64])
Inst haproxy [2.6.12-1] (2.6.12-2 Debian:12.5/stable [amd64])
Conf libc6:i386 (2.36-9+deb12u7 Debian:12.5/stable [i386])
`

// TestUpdatesForeseen parses apt-get's simulation. Packages from bundles, and held ones, stay.
func TestUpdatesForeseen(t *testing.T) {
	h := newFakeHost(t)
	a := New(Options{Root: h.root, Runner: h})
	h.says = map[string]string{"env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get --simulate": foreseen}
	u, err := a.Updates(t.Context(), []string{"haproxy"})
	testkit.Must(t, err)
	var got []string
	for _, p := range u.Packages {
		got = append(got, p.String())
	}
	want := []string{"libc6:i386 2.36-9+deb12u3 → 2.36-9+deb12u7", "linux-image-6.1.0-21-amd64 6.1.90-1 (new)", "linux-image-amd64 6.1.76-1 → 6.1.90-1"}
	if !slices.Equal(got, want) || !slices.Equal(u.Held, []string{"containerd", "haproxy"}) {
		t.Errorf("%q, held %q", got, u.Held)
	}
	if !strings.Contains(h.calls[0], "apt-get update") {
		t.Errorf("the lists are not fetched first: %q", h.calls)
	}
	if u, err = a.Updates(t.Context(), []string{"haproxy", "libc6", "linux-image-amd64"}); err != nil || len(u.Packages) != 0 {
		t.Errorf("new packages come without those that need them: %v, %v", u.Packages, err)
	}
}

// TestUpdateRefused: Update waits for another apt-get, reports a mirror that has changed, and installs no packages that should stay unchanged.
func TestUpdateRefused(t *testing.T) {
	want := machine.Updates{Packages: []machine.PackageUpdate{{Name: "haproxy", From: "1", To: "2"}}}
	for said, kind := range map[string]fail.Kind{
		"E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 7 (unattended-upgr)": fail.NotReady,
		"E: Version '2' for 'haproxy' was not found":                                                   fail.Conflict,
		"E: Failed to fetch http://mirror":                                                             fail.Refused,
	} {
		h := newFakeHost(t)
		h.fail = func(argv []string) error {
			if slices.Contains(argv, "apt-get") {
				return &CommandError{Argv: argv, Code: 100, Stderr: said}
			}
			return nil
		}
		if _, err := New(Options{Root: h.root, Runner: h, UnitWait: 50 * time.Millisecond}).Update(t.Context(), want); fail.KindOf(err) != kind {
			t.Errorf("%s: %v", said, err)
		}
	}
	h := newFakeHost(t)
	h.says = map[string]string{"env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get --simulate install": "Inst haproxy [1] (2 D)\nInst runc [1] (2 D)\n"}
	if _, err := New(Options{Root: h.root, Runner: h}).Update(t.Context(), want); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "another runc") {
		t.Error(err)
	}
}

func TestRebootReasons(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing":         {map[string]string{"/boot/vmlinuz-6.1.0-18-amd64": "", "/boot/vmlinuz-6.1.0-9-amd64": ""}, nil},
		"newer kernel":    {map[string]string{"/boot/vmlinuz-6.1.0-21-amd64": "", "/boot/vmlinuz-6.1.0-18-amd64": ""}, []string{"kernel 6.1.0-21-amd64 is newer than 6.1.0-18-amd64, which runs"}},
		"another flavour": {map[string]string{"/boot/vmlinuz-6.9.0-1-cloud-amd64": ""}, nil},
		"a container":     {map[string]string{"/boot/vmlinuz-6.1.0-21-amd64": "", "/run/systemd/container": "systemd-nspawn"}, nil},
		"packages":        {map[string]string{"/run/reboot-required": "", "/run/reboot-required.pkgs": "libc6\ndbus\nlibc6\n"}, []string{"packages require it: dbus, libc6"}},
	} {
		root := t.TempDir()
		for _, d := range []string{"/boot", "/proc/sys/kernel", "/run", "/etc"} {
			testkit.Must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
		}
		write(t, root+"/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
		for path, text := range c.files {
			write(t, root+path, text)
		}
		if got := New(Options{Root: root, Runner: newFakeHost(t)}).RebootReasons().Reboot; !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
