package agent

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// hostOfUsers is a fake host whose accounts all have the numbers of this process.
func hostOfUsers(t *testing.T) (*fakeHost, *Agent) {
	t.Helper()
	f := newFakeHost(t)
	write(t, f.root+passwd, "root:x:0:0::/root:/bin/bash\n")
	a := f.agent()
	a.owner = f.owner
	return f, a
}

// owner resolves an owner by the fake host's accounts.
func (f *fakeHost) owner(owner string) (int, int, error) {
	name, _, _ := strings.Cut(owner, ":")
	if !strings.Contains(f.content(passwd), name+":") {
		return 0, 0, user.UnknownUserError(name)
	}
	return os.Getuid(), os.Getgid(), nil
}

func ofUsers() machine.Config {
	return machine.Config{Machine: "demo-cp-1", Users: []string{"etcd"}, Directories: []machine.Directory{{Path: "/var/lib/etcd", Mode: 0o700, Owner: "etcd:etcd"}},
		Files: []machine.File{{Path: "/etc/etcd.conf", Mode: 0o600, Owner: "etcd:etcd", Content: []byte("x")}}}
}

// TestUsers: Apply creates an account before the files that it owns; a dry run reports it, and a second run changes nothing.
func TestUsers(t *testing.T) {
	f, a := hostOfUsers(t)
	dry := testkit.Value(a.Apply(t.Context(), ofUsers(), true))(t)
	if len(dry.Changes) < 3 || dry.Changes[0] != (machine.Change{Kind: "user", Name: "etcd", Action: "create"}) || slices.Contains(f.ran(), "systemd-sysusers -") {
		t.Fatalf("a dry run says %+v", dry.Changes)
	}
	testkit.Value(a.Apply(t.Context(), ofUsers(), false))(t)
	if ran := f.ran(); !slices.Contains(ran, "systemd-sysusers -") {
		t.Errorf("ran %q", ran)
	}
	if f.content("/etc/etcd.conf") != "x" {
		t.Error("the account's file is not there")
	}
	again := testkit.Value(a.Apply(t.Context(), ofUsers(), false))(t)
	if len(again.Changes) > 0 || slices.Contains(f.ran(), "systemd-sysusers -") {
		t.Errorf("a second run changed %+v", again.Changes)
	}
}

// TestUsersOfADirectoryThatIsThere: a dry run reports the change of a directory's owner although the new owner has no ID yet.
func TestUsersOfADirectoryThatIsThere(t *testing.T) {
	f, a := hostOfUsers(t)
	testkit.Must(t, os.MkdirAll(f.root+"/var/lib/etcd", 0o700))
	dry := testkit.Value(a.Apply(t.Context(), ofUsers(), true))(t)
	i := slices.IndexFunc(dry.Changes, func(c machine.Change) bool { return c.Name == "/var/lib/etcd" })
	if i < 0 || !strings.Contains(dry.Changes[i].Why, "an account that is made first") {
		t.Errorf("a dry run says %+v", dry.Changes)
	}
}

// TestUsersRefused: if the account can't be created, Apply changes nothing and names the account.
func TestUsersRefused(t *testing.T) {
	f, a := hostOfUsers(t)
	f.fail = func(argv []string) error {
		if argv[0] == "systemd-sysusers" {
			return &CommandError{Argv: argv, Code: 1, Stderr: "read-only file system"}
		}
		return nil
	}
	_, err := a.Apply(t.Context(), ofUsers(), false)
	if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "etcd") || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(f.root + "/etc/etcd.conf"); err == nil {
		t.Error("a file was written though its owner is missing")
	}
}

// TestOwnersThatAreAwaited: only packages, and hooks that run before the files are written, may create a missing account. Any other error of a
// look-up is reported at once.
func TestOwnersThatAreAwaited(t *testing.T) {
	file := machine.File{Path: "/etc/x.keys", Mode: 0o640, Owner: "x:x", Content: []byte("1 key")}
	unknown, broken := error(user.UnknownUserError("x")), errors.New("open /etc/group: input/output error")
	for name, c := range map[string]struct {
		change  func(*machine.Config)
		err     error
		awaited bool
	}{
		"package": {func(c *machine.Config) { c.Packages = []string{"keeper"} }, unknown, true},
		"hook before": {func(c *machine.Config) {
			c.Hooks = []machine.Hook{{Name: "x", When: machine.BeforeInstall, Seconds: 5}}
		}, unknown, true},
		"group":      {func(c *machine.Config) { c.Packages = []string{"keeper"} }, fmt.Errorf("owner: %w", user.UnknownGroupError("x")), true},
		"hook after": {func(c *machine.Config) { c.Hooks = []machine.Hook{{Name: "x", When: machine.AfterInstall, Seconds: 5}} }, unknown, false},
		"another moment": {func(c *machine.Config) {
			c.Hooks = []machine.Hook{{Name: "x", When: machine.BeforeUpgrade, Seconds: 5}}
		}, unknown, false},
		"nothing": {func(*machine.Config) {}, unknown, false},
		"broken":  {func(c *machine.Config) { c.Packages = []string{"keeper"} }, broken, false},
	} {
		f := newFakeHost(t)
		write(t, f.root+host.DpkgStatus, "Package: bash\nStatus: install ok installed\n\n")
		cfg := machine.Config{Machine: "demo-cp-1", Files: []machine.File{file}}
		c.change(&cfg)
		a := f.agent()
		a.owner = func(owner string) (int, int, error) {
			if owner == "x:x" {
				return 0, 0, c.err
			}
			return os.Getuid(), os.Getgid(), nil
		}
		if _, err := a.Apply(t.Context(), cfg, true); (err == nil) != c.awaited {
			t.Errorf("%s: %v", name, err)
		}
	}
}
