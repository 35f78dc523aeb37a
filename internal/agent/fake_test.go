package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent/containerd/containerdtest"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/testkit"
)

// fakeHost is a Runner that behaves like systemd, containerd and modprobe under a root directory. Its state is in a file, so that the state survives
// a killed process.
type fakeHost struct {
	root string
	mu   sync.Mutex
	fail func(argv []string) error // injected failure; may be nil

	namespaces    string // of containerd
	unlisted      error  // why containerd does not list its images
	nft, iptables string // their output; empty: not installed

	says    map[string]string // answers of programs, by the beginning of the command
	modules map[string]func() // what the kernel can load, and what happens then

	calls     []string
	listeners []net.Listener
}

// fakeState is the state that survives a process.
type fakeState struct {
	Units  map[string]fakeUnit
	Images map[string]string
	Read   map[string]string // unit files as systemd last read them
}

type fakeUnit struct {
	Active string
	Ran    map[string]string // watched content that the process started with: path → content
	Def    string            // unit file that it was started by
	Starts int
}

// watched are the files that units of the tests read when they start or reload.
func watched() []string {
	return []string{"/etc/app/app.conf", "/etc/app/other.conf", "/usr/local/bin/app", "/var/lib/app/deep/first"}
}

func newFakeHost(t *testing.T) *fakeHost {
	t.Helper()
	root, err := os.MkdirTemp("", "nau") // short: sockets lie under it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	f := &fakeHost{root: root}
	for _, d := range []string{"etc/systemd/system", "lib/systemd/system", "usr/local/bin", "proc/sys/net/ipv4", "proc/sys/fs/inotify", "run/containerd"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(root, d), 0o755))
	}
	write(t, root+"/proc/sys/net/ipv4/ip_forward", "0\n")
	write(t, root+"/proc/sys/fs/inotify/max_user_instances", "8192\n")
	write(t, root+"/lib/systemd/system/containerd.service", "[Service]\n[Install]\nWantedBy=multi-user.target\n")
	t.Cleanup(func() {
		for _, l := range f.listeners {
			_ = l.Close()
		}
	})
	return f
}

func (f *fakeHost) load() fakeState {
	s := fakeState{Units: map[string]fakeUnit{}, Images: map[string]string{}, Read: map[string]string{}}
	if data, err := os.ReadFile(f.root + "/fake.json"); err == nil {
		if err := json.Unmarshal(data, &s); err != nil {
			panic(err)
		}
	}
	return s
}

func (f *fakeHost) save(s fakeState) {
	data, _ := json.Marshal(s)
	if err := errors.Join(os.WriteFile(f.root+"/fake.tmp", data, 0o600), os.Rename(f.root+"/fake.tmp", f.root+"/fake.json")); err != nil {
		panic(err)
	}
}

// Run implements Runner.
func (f *fakeHost) Run(_ context.Context, stdin io.Reader, argv ...string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	argv = slices.Clone(argv)
	argv[0] = filepath.Base(argv[0])
	f.calls = append(f.calls, strings.ReplaceAll(strings.Join(argv, " "), f.root, ""))
	if f.fail != nil {
		if err := f.fail(argv); err != nil {
			return nil, err
		}
	}
	switch argv[0] {
	case "systemctl":
		return f.systemctl(argv[1:])
	case "ctr":
		return f.ctr(argv[5:])
	case "sync":
		return nil, nil
	case "journalctl":
		if argv[1] == "--sync" || f.silent(strings.TrimPrefix(argv[1], "--identifier=")) {
			return nil, nil
		}
		return []byte("app: bad thing\napp: giving up\n"), nil
	case "modprobe":
		if load := f.modules[argv[len(argv)-1]]; load != nil {
			load()
			return nil, nil
		}
		return nil, &CommandError{Argv: argv, Code: 1, Stderr: "not here"}
	case "systemd-sysusers":
		return nil, f.sysusers(stdin)
	case "env":
		for begin, answer := range f.says {
			if strings.HasPrefix(strings.Join(argv, " "), begin) {
				return []byte(answer), nil
			}
		}
		return nil, nil
	case "update-ca-certificates", "udevadm":
		return nil, nil
	case "update-grub":
		return exec.Command("sh", "-c", mkconfig, "sh", f.root).CombinedOutput()
	case "nft", "iptables":
		if answer := map[string]string{"nft": f.nft, "iptables": f.iptables}[argv[0]]; answer != "" {
			return []byte(answer), nil
		}
		return nil, &CommandError{Argv: argv, Code: 127, Stderr: "not here"}
	case "ip":
		return nil, &CommandError{Argv: argv, Code: 1, Stderr: "not here"}
	}
	return nil, fmt.Errorf("unexpected command %v", argv)
}

// mkconfig handles the kernel's arguments as grub-mkconfig does.
const mkconfig = `set -e
. "$1/etc/default/grub"
for f in "$1"/etc/default/grub.d/*.cfg; do if [ -e "$f" ]; then . "$f"; fi; done
printf '\tlinux /vmlinuz root=/dev/vda1 ro %s %s\n' "$GRUB_CMDLINE_LINUX" "$GRUB_CMDLINE_LINUX_DEFAULT" > "$1/boot/grub/grub.cfg"
`

// sysusers takes lines of the form "u NAME -" (sysusers.d(5)).
// silent reports whether the hook that logs with this identifier is the one that prints nothing.
func (f *fakeHost) silent(identifier string) bool {
	for _, line := range strings.Split(f.content("/run/systemd/system/"+hookUnits+machine.BeforeInstall+"-silent.service"), "\n") {
		if line == "SyslogIdentifier="+identifier {
			return true
		}
	}
	return false
}

func (f *fakeHost) sysusers(stdin io.Reader) error {
	lines, err := io.ReadAll(stdin)
	if err != nil {
		return err
	}
	accounts := f.content(passwd)
	for line := range strings.Lines(string(lines)) {
		accounts += strings.Fields(line)[1] + ":x:999:999::/:/usr/sbin/nologin\n"
	}
	return os.WriteFile(f.root+passwd, []byte(accounts), 0o644)
}

func (f *fakeHost) systemctl(args []string) ([]byte, error) {
	s := f.load()
	verb, names := args[0], slices.DeleteFunc(slices.Clone(args[1:]), func(a string) bool { return strings.HasPrefix(a, "--") })
	var out bytes.Buffer
	for _, n := range names {
		u := s.Units[n]
		switch verb {
		case "show":
			if strings.HasPrefix(n, hookUnits) {
				fmt.Fprint(&out, "Result=exit-code\nExecMainStatus=1\n")
				continue
			}
			f.show(&out, s, n, u)
		case "start", "restart", "reload":
			if f.masked(n) {
				return nil, &CommandError{Argv: args, Code: 1, Stderr: "Failed to " + verb + " " + n + ": Unit " + n + " is masked."}
			}
			u.Active, u.Ran = "active", map[string]string{}
			if verb != "reload" {
				u.Def, u.Starts = s.Read[n], u.Starts+1
			}
			for _, w := range watched() {
				u.Ran[w] = f.content(w)
			}
			if n == containerdUnit {
				f.listen()
			}
		case "stop":
			u.Active = "inactive"
		case "disable":
			links, _ := filepath.Glob(f.root + "/etc/systemd/system/*.wants/" + n)
			for _, l := range links {
				_ = os.Remove(l)
			}
		}
		if verb != "show" {
			s.Units[n] = u
		}
	}
	if verb == "daemon-reload" || verb == "enable" || verb == "disable" {
		s.Read = map[string]string{}
		files, _ := filepath.Glob(f.root + "/etc/systemd/system/*.service")
		for _, p := range files {
			s.Read[filepath.Base(p)] = f.content("/etc/systemd/system/" + filepath.Base(p))
		}
	}
	f.save(s)
	return out.Bytes(), nil
}

func (f *fakeHost) masked(unit string) bool {
	return f.content("/etc/systemd/system/"+unit) == "link to /dev/null"
}

func (f *fakeHost) show(out io.Writer, s fakeState, n string, u fakeUnit) {
	file, load, fragment := "disabled", "loaded", "/etc/systemd/system/"+n
	if _, err := os.Stat(f.root + fragment); err != nil {
		if fragment = "/lib/systemd/system/" + n; f.content(fragment) == "" {
			file, load, fragment = "", "not-found", ""
		}
	}
	if links, _ := filepath.Glob(f.root + "/etc/systemd/system/*.wants/" + n); len(links) > 0 {
		file = "enabled"
	}
	if f.masked(n) {
		file, load = "masked", "masked"
	}
	stale := "no"
	if read, ok := s.Read[n]; ok && read != f.content("/etc/systemd/system/"+n) {
		stale = "yes"
	}
	if u.Active == "" {
		u.Active = "inactive"
	}
	fmt.Fprintf(out, "Id=%s\nLoadState=%s\nActiveState=%s\nSubState=x\nUnitFileState=%s\nFragmentPath=%s\nNeedDaemonReload=%s\n",
		n, load, u.Active, file, fragment, stale)
	if u.Starts > 0 { // also of one that was stopped
		fmt.Fprintf(out, "ExecMainPID=7\nExecMainStartTimestamp=Thu 2020-01-02 03:04:05 UTC\nExecMainStartTimestampMonotonic=1000000\n")
	}
	fmt.Fprintln(out)
}

func (f *fakeHost) ctr(args []string) ([]byte, error) {
	s := f.load()
	var out bytes.Buffer
	switch args[1] {
	case "list":
		if args[0] == "namespaces" {
			return []byte(f.namespaces), nil
		}
		if args[len(args)-1] == "--quiet" {
			if args[0] == "images" {
				out.WriteString(strings.Join(slices.Sorted(maps.Keys(s.Images)), "\n"))
			}
			return out.Bytes(), nil
		}
	case "import": // an archive of the tests holds "ref id"
		data, err := os.ReadFile(args[len(args)-1])
		if err != nil {
			return nil, &CommandError{Argv: args, Code: 1, Stderr: err.Error()}
		}
		ref, id, _ := strings.Cut(string(data), " ")
		s.Images[ref] = id
	case "tag":
		s.Images[args[4]] = s.Images[args[3]]
	}
	f.save(s)
	return out.Bytes(), nil
}

func (f *fakeHost) listen() {
	p := f.root + containerdSocket
	_ = os.Remove(p)
	if l, err := net.Listen("unix", p); err == nil {
		f.listeners = append(f.listeners, l)
		go func() { // until l is closed
			_ = containerdtest.Serve(l, func(string) (map[string]string, error) {
				f.mu.Lock()
				defer f.mu.Unlock()
				return f.load().Images, f.unlisted
			})
		}()
	}
}

// content returns a file under the root, or "" if it does not exist.
func (f *fakeHost) content(p string) string {
	full := filepath.Join(f.root, p)
	if target, err := os.Readlink(full); err == nil {
		return "link to " + target
	}
	data, _ := os.ReadFile(full)
	return string(data)
}

// agent returns an Agent on this host, on which the user who runs the tests owns all files.
func (f *fakeHost) agent() *Agent {
	return New(Options{Root: f.root, Runner: f, LockWait: 300 * time.Millisecond,
		Owner: func(string) (int, int, error) { return os.Geteuid(), os.Getegid(), nil }})
}

// ran returns the calls since the last time, without those that only query.
func (f *fakeHost) ran() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := slices.DeleteFunc(f.calls, func(c string) bool {
		return strings.HasPrefix(c, "systemctl show")
	})
	f.calls = nil
	return calls
}

// apply applies and fails the test on an error.
func (f *fakeHost) apply(t *testing.T, c machine.Config) machine.Report {
	t.Helper()
	r, err := f.agent().Apply(t.Context(), c, false)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tree describes every file under the root except the agent's own and the fake's.
func (f *fakeHost) tree(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	err := filepath.Walk(f.root, func(p string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		rel := strings.TrimPrefix(p, f.root)
		if rel == machine.StateDir+"/agent" {
			return filepath.SkipDir
		}
		if strings.HasPrefix(rel, "/fake") || info.IsDir() && rel == "" || info.Mode()&os.ModeSocket != 0 {
			return nil
		}
		content := ""
		if !info.IsDir() {
			content = f.content(rel)
		}
		fmt.Fprintf(&b, "%s %s %q\n", rel, info.Mode(), content)
		return nil
	})
	testkit.Must(t, err)
	return b.String()
}

func write(t *testing.T, p, content string) {
	t.Helper()
	testkit.Must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	testkit.Must(t, os.WriteFile(p, []byte(content), 0o644))
}
