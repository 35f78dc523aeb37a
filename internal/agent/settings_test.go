package agent

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/bootargs"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// hosted returns a fake host with the sample configuration's blobs, and the configuration.
func hosted(t *testing.T) (*fakeHost, machine.Config) {
	f := newFakeHost(t)
	putBlobs(t, f)
	return f, config()
}

// TestSettingsAreUndone applies each kind of setting, removes it again, and expects the original host.
func TestSettingsAreUndone(t *testing.T) {
	cases := map[string]struct {
		prepare func(f *fakeHost)
		add     func(c *machine.Config)
		paths   []string
		ran     string            // a command that both runs execute; empty: none
		linked  map[string]string // links, by path, that the command makes
	}{
		"sysctl": {
			prepare: func(f *fakeHost) { write(t, f.root+"/proc/sys/net/ipv4/tcp_keepalive_time", "7200\n") },
			add:     func(c *machine.Config) { c.Sysctls["net.ipv4.tcp_keepalive_time"] = "600" },
			paths:   []string{"/proc/sys/net/ipv4/tcp_keepalive_time", sysctlFile},
		},
		"file over another's": {
			prepare: func(f *fakeHost) { write(t, f.root+"/etc/motd", "welcome\n") },
			add: func(c *machine.Config) {
				c.Files = append(c.Files, machine.File{Path: "/etc/motd", Mode: 0o600, Content: []byte("x")})
			},
			paths: []string{"/etc/motd"},
		},
		"link over a file": {
			prepare: func(f *fakeHost) { write(t, f.root+"/etc/localtime", "TZif") },
			add: func(c *machine.Config) {
				c.Links = append(c.Links, machine.Link{Path: "/etc/localtime", Target: "/usr/share/zoneinfo/Europe/Berlin"})
			},
			paths: []string{"/etc/localtime"},
		},
		"link over a link": {
			prepare: func(f *fakeHost) {
				testkit.Must(t, os.Symlink("/usr/share/zoneinfo/Etc/UTC", f.root+"/etc/localtime"))
			},
			add: func(c *machine.Config) {
				c.Links = append(c.Links, machine.Link{Path: "/etc/localtime", Target: "/usr/share/zoneinfo/Europe/Berlin"})
			},
			paths: []string{"/etc/localtime"},
		},
		"kernel arguments": {
			prepare: func(f *fakeHost) { withGRUB(t, f) },
			add:     func(c *machine.Config) { c.KernelArguments = []string{"hugepagesz=1G", "hugepages=4"} },
			paths:   []string{bootargs.File, host.GRUBConfig}, ran: "update-grub",
		},
		"authority": {
			prepare: func(f *fakeHost) { testkit.Must(t, os.MkdirAll(f.root+authoritiesDir, 0o755)) },
			add: func(c *machine.Config) {
				c.Files = append(c.Files, machine.File{Path: authoritiesDir + "naupegos-1.crt", Mode: 0o644, Content: []byte("pem")})
			},
			paths: []string{authoritiesDir + "naupegos-1.crt"}, ran: "update-ca-certificates",
		},
		"links to an authority": { // which update-ca-certificates and openssl rehash have made
			prepare: func(f *fakeHost) {
				for _, dir := range []string{authoritiesDir, authorityLinks} {
					testkit.Must(t, os.MkdirAll(f.root+dir, 0o755))
				}
				testkit.Must(t, os.Symlink("/usr/share/ca-certificates/another.crt", f.root+authorityLinks+"/another.pem"))
			},
			add: func(c *machine.Config) {
				c.Files = append(c.Files, machine.File{Path: authoritiesDir + "naupegos-1.crt", Mode: 0o644, Content: []byte("pem")})
			},
			linked: map[string]string{authorityLinks + "/naupegos-1.pem": authoritiesDir + "naupegos-1.crt", authorityLinks + "/62d3b11c.0": "naupegos-1.pem"},
			paths:  []string{authorityLinks + "/naupegos-1.pem", authorityLinks + "/62d3b11c.0", authorityLinks + "/another.pem"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f, c := hosted(t)
			tc.prepare(f)
			f.apply(t, c)
			look := func() (all []string) {
				for _, p := range tc.paths {
					info, err := os.Lstat(f.root + p)
					if err != nil {
						all = append(all, p+": absent")
						continue
					}
					target, _ := os.Readlink(f.root + p)
					content := f.content(p)
					all = append(all, strings.Join([]string{p, info.Mode().String(), target, content}, " "))
				}
				return all
			}
			before := look()
			with := config()
			tc.add(&with)
			f.ran()
			f.apply(t, with)
			for link, target := range tc.linked {
				testkit.Must(t, os.Symlink(target, f.root+link))
			}
			if slices.Equal(look(), before) {
				t.Fatal("the setting changed nothing")
			}
			if ran := f.ran(); tc.ran != "" && !slices.Contains(ran, tc.ran) {
				t.Errorf("ran %q, want %s", ran, tc.ran)
			}
			if again := f.apply(t, with); len(again.Changes) > 0 {
				t.Errorf("the second apply changes %+v", again.Changes)
			}
			f.ran()
			f.apply(t, c)
			if after := look(); !slices.Equal(after, before) {
				t.Errorf("after the removal %q, before %q", after, before)
			}
			if ran := f.ran(); tc.ran != "" && !slices.Contains(ran, tc.ran) {
				t.Errorf("the removal ran %q, want %s", ran, tc.ran)
			}
			if again := f.apply(t, c); len(again.Changes) > 0 {
				t.Errorf("the apply after the removal changes %+v", again.Changes)
			}
		})
	}
}

// TestPackagesAreUndone: Apply removes the packages that came with one that the configuration no longer names, and no others.
func TestPackagesAreUndone(t *testing.T) {
	d := withDebian(t)
	c := config()
	c.Packages = []string{"lb"}
	d.apply(t, c)
	if got := d.content(host.DpkgStatus); !strings.Contains(got, "lb") {
		t.Fatalf("lb is not installed: %s", got)
	}
	r := d.apply(t, config())
	if !slices.ContainsFunc(r.Changes, func(ch machine.Change) bool {
		return ch.Kind == "package" && ch.Name == "lb" && ch.Action == "remove"
	}) {
		t.Errorf("the report lacks the removal: %+v", r.Changes)
	}
	if got := d.content(host.DpkgStatus); strings.Contains(got, "lb") || !strings.Contains(got, "bash") {
		t.Errorf("left: %s", got)
	}
	if again := d.apply(t, config()); len(again.Changes) > 0 {
		t.Errorf("the next apply changes %+v", again.Changes)
	}
}

// TestSourcesComeBeforePackages: Apply fetches the lists from the sources of the same configuration.
func TestSourcesComeBeforePackages(t *testing.T) {
	d := withDebian(t)
	var seen bool
	d.fail = func(argv []string) error {
		if strings.Contains(strings.Join(argv, " "), "apt-get update") {
			seen = d.content("/etc/apt/sources.list.d/naupegos-x.sources") != ""
		}
		return d.run(argv)
	}
	c := config()
	c.Packages = []string{"lb"}
	c.Files = append(c.Files, machine.File{Path: "/etc/apt/sources.list.d/naupegos-x.sources", Mode: 0o644, Content: []byte("Types: deb\n")})
	d.apply(t, c)
	if !seen {
		t.Error("apt-get update ran before the source was there, or not at all")
	}
}

func hookConfig() machine.Config {
	c := config()
	c.Release = "v1.36.4"
	for _, when := range []string{machine.BeforeInstall, machine.AfterInstall, machine.BeforeUpgrade, machine.AfterUpgrade, machine.BeforeReset, machine.AfterReset} {
		c.Hooks = append(c.Hooks, machine.Hook{When: when, Name: "note", Script: "echo " + when, Seconds: 30})
	}
	return c
}

// hookRuns makes the fake host record which script each start of the hook's unit runs; failing is the moment at which the hook fails.
func hookRuns(f *fakeHost, failing *string) *[]string {
	var runs []string
	f.fail = func(argv []string) error {
		if !strings.HasPrefix(strings.Join(argv, " "), "systemctl start -- "+hookUnits) {
			return nil
		}
		script := f.content(hookScript)
		runs = append(runs, strings.TrimPrefix(script, "echo "))
		if *failing != "" && strings.HasSuffix(script, *failing) {
			return &CommandError{Argv: argv, Code: 1}
		}
		return nil
	}
	return &runs
}

// TestHooks: each hook runs at its own moment only.
func TestHooks(t *testing.T) {
	f, _ := hosted(t)
	none := ""
	runs := hookRuns(f, &none)
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(*runs, want) {
			t.Errorf("%s ran %q, want %q", what, *runs, want)
		}
		*runs = nil
	}
	dry, err := f.agent().Apply(t.Context(), hookConfig(), true)
	testkit.Must(t, err)
	if n := len(dry.Changes); n < 2 || dry.Changes[n-1].Name != "afterInstall note" {
		t.Errorf("the dry run names no hooks: %+v", dry.Changes)
	}
	expect("a dry run")
	f.apply(t, hookConfig())
	expect("the installation", machine.BeforeInstall, machine.AfterInstall)
	f.apply(t, hookConfig())
	expect("an apply without changes")
	c := hookConfig()
	c.Files[1].Content = []byte("two")
	f.apply(t, c)
	expect("an apply with changes")
	c.Release = "v1.37.2"
	f.apply(t, c)
	expect("an upgrade", machine.BeforeUpgrade, machine.AfterUpgrade)
	_, err = f.agent().Reset(t.Context(), ResetOptions{})
	testkit.Must(t, err)
	expect("a reset", machine.BeforeReset, machine.AfterReset)
}

// TestFailingHooks: a failing hook stops its stage. If a hook before the stage fails, the machine stays unchanged; a hook after the stage runs again.
func TestFailingHooks(t *testing.T) {
	for moment, want := range map[string][]string{
		machine.BeforeInstall: {machine.BeforeInstall, machine.BeforeInstall, machine.AfterInstall},
		machine.AfterInstall:  {machine.BeforeInstall, machine.AfterInstall, machine.BeforeInstall, machine.AfterInstall},
	} {
		f, _ := hosted(t)
		failing := moment
		runs := hookRuns(f, &failing)
		_, err := f.agent().Apply(t.Context(), hookConfig(), false)
		if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "hook "+moment+" note") {
			t.Errorf("%s: %v", moment, err)
		}
		var e *fail.Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, "giving up") {
			t.Errorf("%s: the remedy of %v lacks a hook's last lines", moment, err)
		}
		if made := f.content("/etc/app/other.conf") != ""; made != (moment == machine.AfterInstall) {
			t.Errorf("%s: files are placed: %v", moment, made)
		}
		dry, err := f.agent().Apply(t.Context(), hookConfig(), true)
		testkit.Must(t, err)
		if dry.Digest != "" || len(dry.Changes) == 0 {
			t.Errorf("%s: the dry run after the failure calls the machine done: %+v", moment, dry)
		}
		failing = ""
		f.apply(t, hookConfig())
		if !slices.Equal(*runs, want) {
			t.Errorf("%s: ran %q, want %q", moment, *runs, want)
		}
	}
}

// TestSilentHook: a hook fails without output, after a hook that printed something. The error quotes no other hook's output.
func TestSilentHook(t *testing.T) {
	f, _ := hosted(t)
	failing := "false"
	hookRuns(f, &failing)
	c := config()
	c.Hooks = []machine.Hook{{When: machine.BeforeInstall, Name: "note", Script: "echo giving up", Seconds: 30}, {When: machine.BeforeInstall, Name: "silent", Script: "false", Seconds: 30}}
	_, err := f.agent().Apply(t.Context(), c, false)
	if err == nil || !strings.Contains(err.Error(), "hook beforeInstall silent: exit status 1") || !strings.Contains(err.Error(), "it printed nothing") || strings.Contains(err.Error(), "giving up") {
		t.Error(err)
	}
}

// TestOwnersThatPackagesMake gives a file to an account that a package of the same apply creates. Without the package, the account is missing.
func TestOwnersThatPackagesMake(t *testing.T) {
	d := withDebian(t)
	d.fail = func(argv []string) error {
		if line := strings.Join(argv, " "); strings.Contains(line, "apt-get install") {
			write(t, d.root+passwd, d.content(passwd)+"lb:x:998:998::/:/usr/sbin/nologin\n")
		}
		return d.run(argv)
	}
	write(t, d.root+passwd, "root:x:0:0::/root:/bin/bash\n")
	a := d.agent()
	a.owner = d.owner
	c := config()
	c.Files = append(c.Files, machine.File{Path: "/etc/lb.keys", Mode: 0o640, Owner: "lb:lb", Content: []byte("1 key")})
	if _, err := a.Apply(t.Context(), c, false); err == nil || !strings.Contains(err.Error(), "find the owner") {
		t.Errorf("without the package: %v", err)
	}
	c.Packages = append(c.Packages, "lb")
	dry := testkit.Value(a.Apply(t.Context(), c, true))(t)
	if dry.Digest != "" || len(dry.Changes) == 0 {
		t.Errorf("the dry run calls the machine done: %+v", dry)
	}
	testkit.Value(a.Apply(t.Context(), c, false))(t)
	if got := d.content("/etc/lb.keys"); got != "1 key" {
		t.Errorf("the file is %q", got)
	}
}
