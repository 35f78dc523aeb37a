package hack_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// packed builds a package of programs that print their arguments.
func packed(t *testing.T, version string) string {
	t.Helper()
	tree := t.TempDir()
	for name, text := range map[string]string{
		"usr/bin/naupegos": "#!/bin/sh\necho \"$@\"\n", "usr/bin/naupegos-agent": "#!/bin/sh\n",
		"usr/share/man/man1/naupegos.1": ".TH NAUPEGOS 1\n", "usr/share/zsh/site-functions/_naupegos": "#compdef naupegos\n",
	} {
		path := filepath.Join(tree, name)
		testkit.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mode := os.FileMode(0o644)
		if strings.Contains(name, "/bin/") {
			mode = 0o755
		}
		testkit.Must(t, os.WriteFile(path, []byte(text), mode))
	}
	cmd := exec.Command("./deb", tree, version, t.TempDir())
	cmd.Env = append(os.Environ(), "GOARCH=amd64", "SOURCE_DATE_EPOCH=1700000000")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// TestDeb: the package contains the programs and the server's unit with its files, all owned by root, and the same files give the same package.
func TestDeb(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("this host has no dpkg-deb: it is not Debian; make deb says so, too")
	}
	deb := packed(t, "v1.2.3-4-gabcdef")
	if want := "naupegos_1.2.3+4+gabcdef_amd64.deb"; filepath.Base(deb) != want {
		t.Errorf("it is %s, want %s", filepath.Base(deb), want)
	}
	if got := run(t, "dpkg-deb", "--field", deb, "Version", "Architecture"); got != "Version: 1.2.3+4+gabcdef\nArchitecture: amd64\n" {
		t.Error(got)
	}
	list := run(t, "dpkg-deb", "--contents", deb)
	for _, want := range []string{
		"-rwxr-xr-x root/root ./usr/bin/naupegos", "-rwxr-xr-x root/root ./usr/bin/naupegos-agent", "-rw-r--r-- root/root ./lib/systemd/system/naupegos-server.service",
		"-rw------- root/root ./etc/default/naupegos-server", "-rw-r--r-- root/root ./usr/share/man/man1/naupegos.1.gz", "-rw-r--r-- root/root ./usr/share/doc/naupegos/copyright",
		"-rw-r--r-- root/root ./usr/share/zsh/vendor-completions/_naupegos",
	} {
		mode, name, _ := strings.Cut(want, " ./")
		found := false
		for line := range strings.Lines(list) {
			f := strings.Fields(line)
			found = found || f[0]+" "+f[1] == mode && f[len(f)-1] == "./"+name
		}
		if !found {
			t.Errorf("it lacks %s:\n%s", want, list)
		}
	}
	into := t.TempDir()
	run(t, "dpkg-deb", "--raw-extract", deb, into)
	if got := string(testkit.Value(os.ReadFile(filepath.Join(into, "DEBIAN", "conffiles")))(t)); got != "/etc/default/naupegos-server\n" {
		t.Errorf("its conffiles are %q", got)
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		run(t, "sh", "-n", filepath.Join(into, "DEBIAN", script))
	}
	again := testkit.Value(os.ReadFile(packed(t, "v1.2.3-4-gabcdef")))(t)
	if string(again) != string(testkit.Value(os.ReadFile(deb))(t)) {
		t.Error("it is another package each time")
	}
	for _, commit := range []string{"abcdef0", "874e81c"} { // a commit without a tag before it is older than every release
		run(t, "dpkg", "--compare-versions", strings.TrimSpace(run(t, "dpkg-deb", "--field", packed(t, commit), "Version")), "lt", "0.0.1")
	}
}
