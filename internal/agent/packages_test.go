package agent

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent/dpkg"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// debian makes a fake host install and remove packages like apt-get and dpkg: lb depends on libfoo, on which another program may depend, too.
type debian struct {
	*fakeHost
	t     *testing.T
	stale bool // the package lists are outdated
	inUse bool // another program uses libfoo
	broke bool // the installation aborts
	cut   bool // dpkg was interrupted before
	busy  int  // how many more times another program holds the lock
}

func (d *debian) status(names ...string) {
	var b strings.Builder
	for _, n := range names {
		b.WriteString("Package: " + n + "\nStatus: install ok installed\n\n")
	}
	write(d.t, d.root+host.DpkgStatus, b.String())
}

func (d *debian) run(argv []string) error {
	line := strings.Join(argv, " ")
	switch {
	case strings.HasPrefix(line, "env") && strings.Contains(line, "dpkg") && strings.Contains(line, "--configure -a"):
		d.cut = false
	case strings.HasPrefix(line, "env") && d.busy > 0 && !strings.Contains(line, "--simulate"):
		d.busy--
		return &CommandError{Argv: argv, Code: 100, Stderr: "E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 812 (unattended-upgr)"}
	case strings.HasPrefix(line, "env") && strings.Contains(line, "apt-get install") && d.cut:
		return &CommandError{Argv: argv, Code: 100, Stderr: "E: dpkg was interrupted, you must manually run 'dpkg --configure -a' to correct the problem."}
	case strings.HasPrefix(line, "env") && strings.Contains(line, "apt-get update"):
		d.stale = false
	case strings.HasPrefix(line, "env") && strings.Contains(line, "apt-get") && d.stale:
		return &CommandError{Argv: argv, Code: 100, Stderr: "E: Unable to locate package lb"}
	case strings.HasPrefix(line, "env") && strings.Contains(line, "apt-get install"):
		if d.broke {
			d.status("bash", "libfoo")
			return errors.New("the power went")
		}
		d.status("bash", "libfoo", "lb")
	case strings.HasPrefix(line, "env") && strings.Contains(line, "dpkg --purge"):
		if d.inUse {
			d.status("bash", "libfoo")
			return &CommandError{Argv: argv, Code: 1, Stderr: "dpkg: dependency problems prevent removal of libfoo"}
		}
		d.status("bash")
	}
	return nil
}

func withDebian(t *testing.T) *debian {
	d := &debian{fakeHost: newFakeHost(t), t: t}
	d.status("bash")
	d.fail = d.run
	d.says = map[string]string{"env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get --simulate install": "Inst libfoo (1.0 Debian:12/stable [amd64])\n" +
		"Inst bash [5.1] (5.2 Debian:12/stable [amd64])\nInst lb (2.0 Debian:12/stable [amd64]) []\nConf lb (2.0)\n"}
	putBlobs(t, d.fakeHost)
	return d
}

// TestResetRemovesPackages: a reset removes exactly the packages that Naupegos installed, with their dependencies, even if the machine crashes in
// between.
func TestResetRemovesPackages(t *testing.T) {
	for name, c := range map[string]struct {
		stale, inUse, broke bool
		left                string
	}{
		"all":             {left: "bash"},
		"lists too old":   {stale: true, left: "bash"},
		"in use":          {inUse: true, left: "bash libfoo"},
		"killed halfways": {broke: true, left: "bash"},
	} {
		t.Run(name, func(t *testing.T) {
			d := withDebian(t)
			d.stale, d.inUse, d.broke = c.stale, c.inUse, c.broke
			cfg := config()
			cfg.Packages = []string{"lb"}
			if _, err := d.agent().Apply(t.Context(), cfg, false); (err != nil) != c.broke {
				t.Fatalf("apply: %v", err)
			}
			if st := testkit.Value(d.agent().loadState())(t); !slices.Equal(st.Packages, []string{"lb", "libfoo"}) {
				t.Errorf("remembered as ours: %v", st.Packages)
			}
			d.broke = false
			testkit.Value(d.agent().Reset(t.Context(), ResetOptions{}))(t)
			var left []string
			for p := range dpkg.Installed(testkit.Value(readText(d.root + host.DpkgStatus))(t)) {
				left = append(left, p)
			}
			slices.Sort(left)
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("left are %s, want %s", got, c.left)
			}
		})
	}
}

func readText(path string) (string, error) {
	data, err := os.ReadFile(path)
	return string(data), err
}

// TestResetOfAMachineThatHadThem: a reset does not touch packages that were there before.
func TestResetOfAMachineThatHadThem(t *testing.T) {
	d := withDebian(t)
	d.status("bash", "lb")
	cfg := config()
	cfg.Packages = []string{"lb"}
	d.apply(t, cfg)
	testkit.Value(d.agent().Reset(t.Context(), ResetOptions{}))(t)
	if i := slices.IndexFunc(d.ran(), func(c string) bool { return strings.Contains(c, "dpkg") || strings.Contains(c, "apt-get") }); i >= 0 {
		t.Errorf("it ran a program of packages")
	}
}

// TestInstallAtAnyTime: an installation waits for another program that holds the lock, and completes an interrupted one.
func TestInstallAtAnyTime(t *testing.T) {
	c := config()
	c.Packages = []string{"lb"}
	for name, spoil := range map[string]func(d *debian){
		"cut off": func(d *debian) { d.cut = true },
		"busy":    func(d *debian) { d.busy = 3 },
		"both":    func(d *debian) { d.cut, d.busy = true, 2 },
	} {
		d := withDebian(t)
		spoil(d)
		a := d.agent()
		a.unitWait = 40 * time.Second
		if _, err := a.Apply(t.Context(), c, false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	d := withDebian(t)
	d.busy = 1 << 30
	a := d.agent()
	a.unitWait = 20 * time.Millisecond
	_, err := a.Apply(t.Context(), c, false)
	testkit.Fails(t, err, fail.NotReady, "unattended-upgrades")
}

// TestInstallFromOwnSource: authorities and name servers are in place before apt asks a source of the same configuration. If a source can't be used, the
// error says why, unless another one has the package.
func TestInstallFromOwnSource(t *testing.T) {
	c := config()
	c.Packages = []string{"lb"}
	c.Files = append(c.Files, machine.File{Path: "/etc/apt/sources.list.d/site.sources", Mode: 0o644, Content: []byte("x")}, machine.File{Path: authoritiesDir + "naupegos-1.crt", Mode: 0o644, Content: []byte("pem")},
		machine.File{Path: "/etc/resolv.conf", Mode: 0o644, Content: []byte("nameserver 10.0.0.53\n")})
	d := withDebian(t)
	write(t, d.root+authoritiesProgram, "")
	d.fail = func(argv []string) error {
		if slices.Contains(argv, "update") && (!slices.Contains(d.calls, "update-ca-certificates") || d.content("/etc/resolv.conf") == "") {
			t.Errorf("apt asks before the machine trusts and finds the source: %q", d.calls)
		}
		return d.run(argv)
	}
	d.apply(t, c)

	for _, has := range []bool{true, false} {
		d := withDebian(t)
		d.stale = true
		d.fail = func(argv []string) error {
			if slices.Contains(argv, "update") {
				d.stale = !has
				return &CommandError{Argv: argv, Code: 100, Stderr: "E: Failed to fetch https://site/InRelease  certificate verification failed"}
			}
			return d.run(argv)
		}
		c := config()
		c.Packages = []string{"lb"}
		_, err := d.agent().Apply(t.Context(), c, false)
		if has {
			testkit.Must(t, err)
			continue
		}
		testkit.Fails(t, err, fail.Refused, "Unable to locate package lb", "certificate verification failed")
	}
}

// TestInstallRemovesNothing: Apply and its dry run refuse a package that conflicts with installed ones, before they change anything. A package that
// an installed one provides is not wanted.
func TestInstallRemovesNothing(t *testing.T) {
	c := config()
	c.Packages = []string{"runc"}
	d := withDebian(t)
	d.says = map[string]string{"env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get --simulate install": "Remv docker-ce [5:28.0]\nRemv containerd.io [1.7]\nInst runc (1.1 Debian:12/stable [amd64])\n"}
	before := d.tree(t)
	for _, dry := range []bool{true, false} {
		_, err := d.agent().Apply(t.Context(), c, dry)
		testkit.Fails(t, err, fail.Conflict, "to install runc, apt would remove docker-ce containerd.io")
	}
	if after := d.tree(t); after != before {
		t.Errorf("changed:\n%s\nwas:\n%s", after, before)
	}
	write(t, d.root+host.DpkgStatus, "Package: containerd.io\nStatus: install ok installed\nProvides: containerd, runc (= 1.1)\n\nPackage: crun\nStatus: deinstall ok config-files\nProvides: lb\n")
	write(t, d.root+"/usr/bin/runc", "program")
	d.ran()
	d.apply(t, c)
	if calls := strings.Join(d.ran(), "\n"); strings.Contains(calls, "apt-get") {
		t.Errorf("it ran\n%s", calls)
	}
	for what, ok := range map[string]bool{"containerd": false, "lb": false, "runc": true} { // no program; not installed
		if missing := testkit.Value(d.agent().diffPackages([]string{what}))(t); ok != (len(missing) == 0) {
			t.Errorf("%s is missing: %v", what, missing)
		}
	}
}

// TestInstallReplacesARole: a package replaces an installed one in a role that only one may have, such as a time daemon, and the plan names it. Apply
// refuses to remove other packages along with it, or packages that clusters depend on.
func TestInstallReplacesARole(t *testing.T) {
	const chrony = "Package: chrony\nProvides: time-daemon\nConflicts: time-daemon\n\n"
	const daemon = "\nStatus: install ok installed\nProvides: ntp-client (= 1), time-daemon (= 1)\nConflicts: time-daemon\n\n"
	for name, tc := range map[string]struct{ status, removed, shown, refused string }{
		"a role":            {"Package: timesyncd" + daemon, "timesyncd", chrony, ""},
		"no conflict":       {"Package: timesyncd\nStatus: install ok installed\nProvides: time-daemon\n\n", "timesyncd", chrony, "timesyncd"},
		"not both":          {"Package: timesyncd" + daemon, "timesyncd", "Package: chrony\nConflicts: time-daemon\n\n", "timesyncd"},
		"more than a role":  {"Package: timesyncd" + daemon + "Package: desktop\nStatus: install ok installed\n\n", "timesyncd desktop", chrony, "desktop"},
		"what clusters use": {"Package: containerd.io" + daemon, "containerd.io", chrony, "containerd.io"},
	} {
		t.Run(name, func(t *testing.T) {
			c := config()
			c.Packages = []string{"chrony"}
			d := withDebian(t)
			write(t, d.root+host.DpkgStatus, tc.status)
			foreseen := "Inst chrony (4.3 Debian:12/stable [amd64])\n"
			for p := range strings.FieldsSeq(tc.removed) {
				foreseen = "Remv " + p + " [1]\n" + foreseen
			}
			d.says = map[string]string{"env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get --simulate install": foreseen, "env LC_ALL=C apt-cache show": tc.shown}
			r, err := d.agent().Apply(t.Context(), c, true)
			if tc.refused != "" {
				testkit.Fails(t, err, fail.Conflict, "to install chrony, apt would remove "+tc.refused)
				return
			}
			testkit.Must(t, err)
			if !slices.ContainsFunc(r.Changes, func(ch machine.Change) bool { return ch.Name == tc.removed && ch.Action == "remove" }) {
				t.Errorf("the plan does not name %s: %v", tc.removed, r.Changes)
			}
			d.ran()
			d.apply(t, c)
			if calls := strings.Join(d.ran(), "\n"); strings.Contains(calls, "--no-remove") || !strings.Contains(calls, "apt-get install") {
				t.Errorf("it ran\n%s", calls)
			}
		})
	}
}
