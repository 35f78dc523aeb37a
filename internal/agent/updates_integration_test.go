//go:build integration

package agent_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/agent"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// site is a directory in which the real apt and dpkg work, and a mirror that they use.
type aptSite struct {
	t         *testing.T
	dir, repo string
}

// Run implements agent.Runner: the directory is the root of the programs.
func (s aptSite) Run(ctx context.Context, stdin io.Reader, argv ...string) ([]byte, error) {
	if argv[0] != "env" {
		argv = append([]string{"env"}, argv...)
	}
	if i := slices.Index(argv, "dpkg"); i >= 0 {
		argv = slices.Insert(slices.Clone(argv), i+1, "--root="+s.dir)
	}
	return agent.Exec{}.Run(ctx, stdin, slices.Insert(slices.Clone(argv), 1, "APT_CONFIG="+s.dir+"/apt.conf")...)
}

func newAptSite(t *testing.T) aptSite {
	t.Helper()
	s := aptSite{t: t, dir: t.TempDir()}
	s.repo = s.dir + "/repo"
	for _, d := range []string{"etc/apt/preferences.d", "etc/apt/apt.conf.d", "etc/apt/sources.list.d", "etc/apt/trusted.gpg.d", "var/lib/dpkg/updates", "var/lib/dpkg/info",
		"var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt", "run", "boot", "repo", "var/lib/naupegos/agent"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(s.dir, d), 0o755))
	}
	s.write("var/lib/dpkg/status", "")
	s.write("etc/apt/sources.list", "deb [trusted=yes] file:"+s.repo+" ./\n")
	s.write("apt.conf", fmt.Sprintf(`Dir "%[1]s"; Dir::State::status "%[1]s/var/lib/dpkg/status"; Dir::Bin::dpkg "/usr/bin/dpkg"; Dir::Bin::methods "/usr/lib/apt/methods";
Dir::Bin::solvers "/usr/lib/apt/solvers"; Dir::Bin::planners "/usr/lib/apt/planners"; APT::Sandbox::User "root"; DPkg::Options { "--root=%[1]s"; "--force-script-chrootless"; };
`, s.dir))
	return s
}

func (s aptSite) write(path, text string) {
	s.t.Helper()
	testkit.Must(s.t, os.MkdirAll(filepath.Dir(filepath.Join(s.dir, path)), 0o755))
	testkit.Must(s.t, os.WriteFile(filepath.Join(s.dir, path), []byte(text), 0o644))
}

// deb makes a package with a file of settings, and returns its path.
func (s aptSite) deb(name, version, needs string) string {
	s.t.Helper()
	tree := s.t.TempDir()
	control := fmt.Sprintf("Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: test <test@example.org>\nDescription: test\n", name, version)
	if needs != "" {
		control += "Depends: " + needs + "\n"
	}
	if name == "chrony" || name == "timesyncd" {
		control += "Provides: time-daemon\nConflicts: time-daemon\nReplaces: time-daemon\n"
	}
	for path, text := range map[string]string{"DEBIAN/control": control, "DEBIAN/conffiles": "/etc/" + name + ".conf\n", "etc/" + name + ".conf": "of " + version + "\n"} {
		testkit.Must(s.t, os.MkdirAll(filepath.Dir(filepath.Join(tree, path)), 0o755))
		testkit.Must(s.t, os.WriteFile(filepath.Join(tree, path), []byte(text), 0o644))
	}
	file := filepath.Join(s.repo, name+"_"+version+"_all.deb")
	if out, err := exec.Command("dpkg-deb", "--root-owner-group", "-b", tree, file).CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return file
}

// publish makes the mirror offer exactly these packages.
func (s aptSite) publish(files ...string) {
	s.t.Helper()
	var index strings.Builder
	for _, f := range files {
		control := testkit.Value(exec.Command("dpkg-deb", "-f", f).Output())(s.t)
		data := testkit.Value(os.ReadFile(f))(s.t)
		fmt.Fprintf(&index, "%sFilename: ./%s\nSize: %d\nSHA256: %x\n\n", control, filepath.Base(f), len(data), sha256.Sum256(data))
	}
	s.write("repo/Packages", index.String())
}

// must runs a program as the agent would.
func (s aptSite) must(argv ...string) string {
	s.t.Helper()
	return string(testkit.Value(s.Run(s.t.Context(), nil, argv...))(s.t))
}

func (s aptSite) installed() string {
	s.t.Helper()
	return s.must("env", "dpkg-query", "--admindir="+s.dir+"/var/lib/dpkg", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\n")
}

// TestUpdateByApt brings packages up to date with the real apt and dpkg: exactly the versions shown are installed, edited settings and programs of
// bundles stay, and an interrupted update is finished.
func TestUpdateByApt(t *testing.T) {
	s := newAptSite(t)
	a := agent.New(agent.Options{Root: s.dir, Runner: s})
	one, dep, runc := s.deb("harbour", "1.0", "quay"), s.deb("quay", "1.0", ""), s.deb("runc", "1.0", "")
	s.publish(one, dep, runc)
	s.must("apt-get", "update", "-q")
	s.must("apt-get", "install", "-y", "-q", "harbour", "runc")
	s.write("etc/harbour.conf", "an administrator's own\n")

	if u, err := a.Updates(t.Context(), nil); err != nil || len(u.Packages) != 0 || len(u.Reboot) != 0 {
		t.Fatalf("nothing is newer: %+v, %v", u, err)
	}
	two, dep2, crane := s.deb("harbour", "1.1", "quay (>= 1.1), crane"), s.deb("quay", "1.1", ""), s.deb("crane", "3", "")
	s.publish(two, dep2, crane, s.deb("runc", "2.0", ""))
	u, err := a.Updates(t.Context(), nil)
	testkit.Must(t, err)
	if got := fmt.Sprint(u.Packages); got != "[crane 3 (new) harbour 1.0 → 1.1 quay 1.0 → 1.1]" || !slices.Equal(u.Held, []string{"runc"}) {
		t.Fatalf("%s, held %q", got, u.Held)
	}

	// The mirror changes between the plan and the step.
	s.publish(s.deb("harbour", "1.2", "quay (>= 1.1), crane"), dep2, crane)
	s.must("apt-get", "update", "-q")
	if _, err := a.Update(t.Context(), u); fail.KindOf(err) != fail.Conflict {
		t.Errorf("another version than was shown: %v", err)
	}
	s.publish(two, dep2, crane)
	s.must("apt-get", "update", "-q")

	left, err := a.Update(t.Context(), u)
	testkit.Must(t, err)
	if len(left.Packages) != 0 {
		t.Errorf("left: %v", left.Packages)
	}
	if got, want := s.installed(), "crane 3 installed\nharbour 1.1 installed\nquay 1.1 installed\nrunc 1.0 installed\n"; got != want {
		t.Errorf("installed:\n%swant:\n%s", got, want)
	}
	if got := string(testkit.Value(os.ReadFile(s.dir + "/etc/harbour.conf"))(t)); got != "an administrator's own\n" {
		t.Errorf("settings are now %q", got)
	}
	if got := strings.Fields(s.must("apt-mark", "showauto")); !slices.Equal(got, []string{"crane", "quay"}) {
		t.Errorf("packages that came for others: %q", got)
	}
	if again, err := a.Update(t.Context(), u); err != nil || len(again.Packages) != 0 {
		t.Errorf("a step that runs again: %v, %v", again, err)
	}

	// An installation is interrupted between two packages.
	three := s.deb("harbour", "2.0", "quay (>= 2.0)")
	s.publish(three, s.deb("quay", "2.0", ""), crane)
	s.must("env", "dpkg", "--force-depends", "--unpack", three)
	if u, err = a.Updates(t.Context(), nil); err != nil || !u.Unfinished {
		t.Fatalf("an installation was cut off: %+v, %v", u, err)
	}
	if left, err = a.Update(t.Context(), machine.Updates{Unfinished: true}); err != nil || left.Unfinished || !strings.Contains(s.installed(), "harbour 2.0 installed\nquay 2.0 installed\n") {
		t.Errorf("%+v, %v, installed:\n%s", left, err, s.installed())
	}
	s.write("run/reboot-required", "")
	if got := a.RebootReasons().Reboot; !slices.Equal(got, []string{"packages require it"}) {
		t.Errorf("%q", got)
	}
	testkit.Must(t, os.Remove(s.repo+"/Packages"))
	if _, err := a.Updates(t.Context(), nil); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "mirror") {
		t.Errorf("a mirror that is gone: %v", err)
	}
}

// TestInstallByApt: with the real apt and dpkg, chrony takes the place of another time daemon; a package that would remove anything else is refused.
func TestInstallByApt(t *testing.T) {
	s := newAptSite(t)
	testkit.Must(t, os.Mkdir(s.dir+"/proc", 0o755))
	a := agent.New(agent.Options{Root: s.dir, Runner: s})
	s.publish(s.deb("timesyncd", "1.0", ""), s.deb("chrony", "4.3", "tz"), s.deb("tz", "1", ""), s.deb("clock", "1", "timesyncd"))
	s.must("apt-get", "update", "-q")
	s.must("apt-get", "install", "-y", "-q", "timesyncd", "clock")
	want := machine.Config{Machine: "demo-1", Packages: []string{"chrony"}}
	before := s.installed()
	if _, err := a.Apply(t.Context(), want, false); fail.KindOf(err) != fail.Conflict || !strings.Contains(err.Error(), "would remove clock") || s.installed() != before {
		t.Fatalf("a package that needs the other daemon: %v, installed:\n%s", err, s.installed())
	}
	s.must("env", "dpkg", "--purge", "clock")
	r, err := a.Apply(t.Context(), want, true)
	testkit.Must(t, err)
	if got := fmt.Sprint(r.Changes); !strings.Contains(got, "timesyncd") {
		t.Errorf("the plan says %s", got)
	}
	testkit.Value(a.Apply(t.Context(), want, false))(t)
	if got := s.installed(); !strings.Contains(got, "chrony 4.3 installed") || !strings.Contains(got, "tz 1 installed") || strings.Contains(got, "timesyncd 1.0 installed") {
		t.Errorf("installed:\n%s", got)
	}
}
