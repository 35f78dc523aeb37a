package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/pki/pkitest"
	"github.com/naupegos/naupegos/internal/testkit"
)

const (
	binaryBlob = "the app's program"
	imageBlob  = "naupegos.local/pause:1 sha256:1111111111111111111111111111111111111111111111111111111111111111"
)

func digestOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// certificate returns a certificate, and its key, that began a day ago and ends after the given time.
func certificate(end time.Duration) string {
	p, err := pki.Open(&pkitest.MemorySecrets{}, pki.Options{}).Issue(context.Background(),
		pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: "app", Client: true, Age: 24 * time.Hour}, end)
	if err != nil {
		panic(err)
	}
	return string(p.CertPEM) + string(p.KeyPEM)
}

var firstCertificate = sync.OnceValue(func() string { return certificate(time.Hour) })

func config() machine.Config {
	return machine.Config{
		Machine:     "demo-w-1",
		Directories: []machine.Directory{{Path: "/etc/app", Mode: 0o750}},
		Files: []machine.File{
			{Path: "/etc/app/app.conf", Mode: 0o600, Content: []byte("one"), Secret: true},
			{Path: "/etc/app/other.conf", Mode: 0o644, Content: []byte("other")},
			{Path: "/var/lib/app/deep/first", Mode: 0o600, Content: []byte(firstCertificate()), RenewedAt: "/var/lib/app/deep/current"},
		},
		Binaries: []machine.Binary{{Path: "/usr/local/bin/app", Digest: digestOf(binaryBlob), Size: int64(len(binaryBlob))}},
		Images: []machine.Image{{Refs: []string{"naupegos.local/pause:1", "registry.k8s.io/pause:1"}, Digest: digestOf(imageBlob),
			Size: int64(len(imageBlob)), ID: strings.Fields(imageBlob)[1]}},
		Modules: []string{"overlay"},
		Sysctls: map[string]string{"net.ipv4.ip_forward": "1", "fs.inotify.max_user_instances": "1024"},
		Units: []machine.Unit{
			{Name: "containerd.service", Enabled: true, Active: true, DropIns: []machine.DropIn{{Name: "10-x.conf", Content: "[Service]\n"}}},
			{Name: "app.service", Content: "[Service]\nExecStart=/x\n[Install]\nWantedBy=multi-user.target\n", Enabled: true, Active: true,
				Watches: []string{"/etc/app/app.conf", "/usr/local/bin/app", "/var/lib/app/deep/first"}},
			{Name: "lb.service", Content: "[Service]\nExecStart=/y\n", Active: true, Reload: true, Watches: []string{"/etc/app/other.conf"}},
		},
	}
}

func putBlobs(t *testing.T, f *fakeHost) {
	t.Helper()
	for _, b := range []string{binaryBlob, imageBlob} {
		testkit.Must(t, f.agent().PutBlob(t.Context(), digestOf(b), int64(len(b)), strings.NewReader(b)))
	}
}

// applied returns a host on which config has been applied.
func applied(t *testing.T) *fakeHost {
	t.Helper()
	f := newFakeHost(t)
	putBlobs(t, f)
	f.apply(t, config())
	f.ran()
	return f
}

func TestApplyMakesEverything(t *testing.T) {
	f := newFakeHost(t)
	putBlobs(t, f)
	r := f.apply(t, config())
	if r.Digest != config().Digest() || len(r.Missing) > 0 {
		t.Errorf("report %+v", r)
	}
	for p, want := range map[string]string{
		"/etc/app/app.conf": "one", "/var/lib/app/deep/current": "link to first", "/usr/local/bin/app": "link to " + blobFile(digestOf(binaryBlob)),
		sysctlFile: "fs.inotify.max_user_instances = 1024\nnet.ipv4.ip_forward = 1\n", "/proc/sys/net/ipv4/ip_forward": "1\n",
		"/proc/sys/fs/inotify/max_user_instances":                        "8192\n", // a limit is never lowered
		"/etc/systemd/system/multi-user.target.wants/app.service":        "link to /etc/systemd/system/app.service",
		"/etc/systemd/system/containerd.service.d/10-x.conf":             "[Service]\n",
		"/etc/systemd/system/multi-user.target.wants/containerd.service": "link to /lib/systemd/system/containerd.service",
	} {
		if got := f.content(p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	want := []string{
		"systemctl daemon-reload", "systemctl start -- containerd.service",
		"ctr --address /run/containerd/containerd.sock -n k8s.io images import --label io.cri-containerd.pinned=pinned " + blobFile(digestOf(imageBlob)),
		"ctr --address /run/containerd/containerd.sock -n k8s.io images tag --force naupegos.local/pause:1 registry.k8s.io/pause:1",
		"ctr --address /run/containerd/containerd.sock -n k8s.io images label registry.k8s.io/pause:1 io.cri-containerd.pinned=pinned",
		"sync --file-system /var/lib/containerd",
		"systemctl start -- app.service lb.service",
	}
	if got := f.ran(); !slices.Equal(got, want) {
		t.Errorf("ran:\n%s", strings.Join(got, "\n"))
	}
	if has, _ := f.agent().HasBlob(digestOf(imageBlob), 0); has {
		t.Error("the archive of an imported image is kept")
	}
	for _, c := range r.Changes {
		if strings.Contains(c.Why, "one") || strings.Contains(c.Why, "other") {
			t.Errorf("change %+v shows content", c)
		}
	}
}

// TestSettingOfAModule sets kernel settings that exist only once a module is loaded, as on every machine with its own kernel.
func TestSettingOfAModule(t *testing.T) {
	const dir = "/proc/sys/net/bridge"
	c := machine.Config{Machine: "demo-w-1", Modules: []string{"br_netfilter"}, Sysctls: map[string]string{"net.bridge.bridge-nf-call-iptables": "1"}}
	f := newFakeHost(t)
	testkit.Must(t, os.MkdirAll(f.root+host.ModulesDir(), 0o755))
	f.modules = map[string]func(){"br_netfilter": func() {
		testkit.Must(t, os.MkdirAll(f.root+dir, 0o755))
		write(t, f.root+dir+"/bridge-nf-call-iptables", "0\n")
		write(t, f.root+"/proc/modules", "br_netfilter 1 0 - Live 0x0\n")
	}}
	if r, err := f.agent().Apply(t.Context(), c, true); err != nil || len(r.Changes) == 0 {
		t.Errorf("dry run: %+v %v", r, err)
	}
	f.apply(t, c)
	if got := f.content(dir + "/bridge-nf-call-iptables"); got != "1\n" {
		t.Errorf("the setting is %q", got)
	}
	if r := f.apply(t, c); len(r.Changes) > 0 {
		t.Errorf("again: %+v", r)
	}

	f = newFakeHost(t)
	testkit.Must(t, os.MkdirAll(f.root+host.ModulesDir(), 0o755))
	if _, err := f.agent().Apply(t.Context(), c, false); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "bridge-nf-call-iptables") {
		t.Errorf("a kernel without the module: %v", err)
	}
}

func TestSecondApplyChangesNothing(t *testing.T) {
	f := applied(t)
	before, _ := os.Stat(f.root + machine.StateKey)
	r := f.apply(t, config())
	after, _ := os.Stat(f.root + machine.StateKey)
	if len(r.Changes) > 0 || r.Digest != config().Digest() || len(f.ran()) > 0 || !os.SameFile(before, after) {
		t.Errorf("report %+v, ran %v, state written: %v", r, f.ran(), !os.SameFile(before, after))
	}
}

func TestRestartsOnlyWhatAChangeTouches(t *testing.T) {
	cases := map[string]struct {
		change func(*machine.Config)
		want   []string
	}{
		"watched file":    {func(c *machine.Config) { c.Files[0].Content = []byte("two") }, []string{"systemctl restart -- app.service"}},
		"reloadable file": {func(c *machine.Config) { c.Files[1].Content = []byte("two") }, []string{"systemctl reload -- lb.service"}},
		"unwatched file":  {func(c *machine.Config) { c.Files = append(c.Files, machine.File{Path: "/etc/new", Mode: 0o644}) }, nil},
		"mode of watched": {func(c *machine.Config) { c.Files[0].Mode = 0o400 }, []string{"systemctl restart -- app.service"}},
		"unit":            {func(c *machine.Config) { c.Units[2].Content += "#\n" }, []string{"systemctl daemon-reload", "systemctl restart -- lb.service"}},
		"drop-in added": {func(c *machine.Config) { c.Units[1].DropIns = []machine.DropIn{{Name: "a.conf", Content: "x"}} },
			[]string{"systemctl daemon-reload", "systemctl restart -- app.service"}},
		"stopped":  {func(c *machine.Config) { c.Units[1].Active = false }, []string{"systemctl stop -- app.service"}},
		"disabled": {func(c *machine.Config) { c.Units[1].Enabled = false }, []string{"systemctl daemon-reload"}},
		"removed": {func(c *machine.Config) { c.Units = c.Units[:2] },
			[]string{"systemctl stop -- lb.service", "systemctl daemon-reload"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			f := applied(t)
			c := config()
			tc.change(&c)
			dry, err := f.agent().Apply(t.Context(), c, true)
			testkit.Must(t, err)
			if got := f.ran(); len(got) > 0 || len(dry.Changes) == 0 || dry.Digest != "" {
				t.Errorf("the dry run ran %v and reports %+v", got, dry)
			}
			f.apply(t, c)
			if got := f.ran(); !slices.Equal(got, tc.want) {
				t.Errorf("ran %q, want %q", got, tc.want)
			}
			if again := f.apply(t, c); len(again.Changes) > 0 {
				t.Errorf("the run after that changes %+v", again.Changes)
			}
		})
	}
}

func TestMissingBlobsChangeNothing(t *testing.T) {
	f := newFakeHost(t)
	before := f.tree(t)
	r := f.apply(t, config())
	want := []string{digestOf(binaryBlob), digestOf(imageBlob)}
	if !slices.Equal(r.Missing, want) || r.Digest != "" || len(r.Changes) > 0 {
		t.Errorf("report %+v", r)
	}
	if got := strings.ReplaceAll(f.tree(t), "/var/lib/naupegos drwx------ \"\"\n", ""); !strings.HasPrefix(stripVar(got), stripVar(before)) || len(f.ran()) > 0 {
		t.Errorf("changed:\n%s\nwas:\n%s", got, before)
	}
	if r := testkit.Value(f.agent().Apply(t.Context(), config(), true))(t); !slices.Equal(r.Missing, want) || r.DiskFree == 0 {
		t.Errorf("a dry run does not say what is missing, and how much room there is for it: %+v", r)
	}
}

// TestPreparedStore: an image's manifest is in containerd's store before containerd runs.
func TestPreparedStore(t *testing.T) {
	f := newFakeHost(t)
	testkit.Must(t, f.agent().PutBlob(t.Context(), digestOf(binaryBlob), 0, strings.NewReader(binaryBlob)))
	id := config().Images[0].ID
	write(t, f.root+machine.ContainerdRoot+"/io.containerd.content.v1.content/blobs/sha256/"+strings.TrimPrefix(id, "sha256:"), "{}")
	s := f.load()
	s.Images = map[string]string{"naupegos.local/pause:1": id, "registry.k8s.io/pause:1": id}
	f.save(s)
	if r := f.apply(t, config()); r.Digest == "" {
		t.Fatalf("report %+v", r)
	}
	if got, want := f.ran(), []string{"systemctl daemon-reload", "systemctl start -- containerd.service app.service lb.service"}; !slices.Equal(got, want) {
		t.Errorf("ran %q", got)
	}

	f = newFakeHost(t) // the store lacks what it seems to contain
	testkit.Must(t, f.agent().PutBlob(t.Context(), digestOf(binaryBlob), 0, strings.NewReader(binaryBlob)))
	write(t, f.root+machine.ContainerdRoot+"/io.containerd.content.v1.content/blobs/sha256/"+strings.TrimPrefix(id, "sha256:"), "{}")
	if r := f.apply(t, config()); !slices.Equal(r.Missing, []string{digestOf(imageBlob)}) || r.Digest != "" {
		t.Errorf("report %+v", r)
	}
	putBlobs(t, f)
	if r := f.apply(t, config()); r.Digest == "" || f.load().Images["registry.k8s.io/pause:1"] != id {
		t.Errorf("report %+v", r)
	}
}

// stripVar leaves out the directories that hold the agent's lock.
func stripVar(tree string) string {
	var b strings.Builder
	for line := range strings.Lines(tree) {
		if !strings.HasPrefix(line, "/var") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestUnitFailureShowsItsLog(t *testing.T) {
	f := newFakeHost(t)
	putBlobs(t, f)
	f.fail = func(argv []string) error {
		if argv[0] == "systemctl" && argv[1] == "start" && slices.Contains(argv, "app.service") {
			return &CommandError{Argv: argv, Code: 1, Stderr: "Job for app.service failed"}
		}
		return nil
	}
	_, err := f.agent().Apply(t.Context(), config(), false)
	if err == nil || !strings.Contains(err.Error(), "start app.service") || !strings.Contains(err.Error(), "app: giving up") {
		t.Fatalf("error %v", err)
	}
	f.fail = nil
	f.apply(t, config())
	if u := f.load().Units["app.service"]; u.Active != "active" {
		t.Errorf("app.service is %s after the run that mends it", u.Active)
	}
}

func TestSecondRunWaitsForTheFirst(t *testing.T) {
	f := applied(t)
	unlock, err := f.agent().lock(t.Context())
	testkit.Must(t, err)
	_, err = f.agent().Apply(t.Context(), config(), false)
	if fail.KindOf(err) != fail.Conflict {
		t.Errorf("error %v", err)
	}
	unlock()
	f.apply(t, config())
}

// TestRenewedCertificate: a certificate that a program renews itself is left alone until it is no longer usable.
func TestRenewedCertificate(t *testing.T) {
	f := applied(t)
	current := f.root + "/var/lib/app/deep/current"
	renewed := certificate(time.Hour)
	write(t, f.root+"/var/lib/app/deep/renewed", renewed)
	testkit.Must(t, os.Remove(current))
	testkit.Must(t, os.Symlink("renewed", current))
	testkit.Must(t, os.Remove(f.root+"/var/lib/app/deep/first"))
	if r := f.apply(t, config()); len(r.Changes) != 0 || f.content("/var/lib/app/deep/current") != "link to renewed" {
		t.Errorf("a valid certificate: changes %+v, %s", r.Changes, f.content("/var/lib/app/deep/current"))
	}
	for why, content := range map[string]string{
		"the certificate at /var/lib/app/deep/current expired at ": certificate(-time.Hour),
		"what lies at /var/lib/app/deep/current is no certificate": "damaged",
		"no certificate at /var/lib/app/deep/current":              "",
	} {
		write(t, f.root+"/var/lib/app/deep/renewed", content)
		testkit.Must(t, os.Remove(current))
		testkit.Must(t, os.Symlink("renewed", current))
		if content == "" {
			testkit.Must(t, os.Remove(f.root+"/var/lib/app/deep/renewed"))
		}
		r := f.apply(t, config())
		if len(r.Changes) != 2 || !strings.HasPrefix(r.Changes[0].Why, why) || r.Changes[1].Name != "app.service" {
			t.Errorf("%s: changes %+v", why, r.Changes)
		}
		if f.content("/var/lib/app/deep/current") != "link to first" {
			t.Errorf("%s: %s", why, f.content("/var/lib/app/deep/current"))
		}
		if r := f.apply(t, config()); len(r.Changes) != 0 {
			t.Errorf("%s, then: changes %+v", why, r.Changes)
		}
	}
}

// TestRenewedByAnother: a certificate that a program renews itself is replaced if another authority signed it.
func TestRenewedByAnother(t *testing.T) {
	f := applied(t)
	k := pki.Open(&pkitest.MemorySecrets{}, pki.Options{})
	p := testkit.Value(k.Issue(t.Context(), pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: "app", Client: true}, time.Hour))(t)
	c := config()
	for i := range c.Files {
		if c.Files[i].RenewedAt != "" {
			c.Files[i].Authority, c.Files[i].Content = testkit.Value(k.CABundle(t.Context(), pki.KubernetesCA))(t), append(p.CertPEM, p.KeyPEM...)
		}
	}
	r := f.apply(t, c)
	if len(r.Changes) != 2 || r.Changes[0].Why != "the certificate at /var/lib/app/deep/current is of another authority" || r.Changes[1].Name != "app.service" {
		t.Errorf("changes %+v", r.Changes)
	}
	if r := f.apply(t, c); len(r.Changes) != 0 {
		t.Errorf("then: changes %+v", r.Changes)
	}
}

func TestDrift(t *testing.T) {
	f := applied(t)
	write(t, f.root+"/etc/app/other.conf", "drifted")
	testkit.Must(t, os.Chmod(f.root+"/etc/app", 0o777))
	testkit.Must(t, os.Remove(f.root+"/usr/local/bin/app"))
	r := f.apply(t, config())
	if len(r.Changes) != 5 { // directory, file, binary, reload of lb, restart of app
		t.Errorf("changes %+v", r.Changes)
	}
	if f.content("/etc/app/other.conf") != "other" || f.content("/usr/local/bin/app") == "" {
		t.Error("drift was not mended")
	}
}

func TestForeignFilesComeBack(t *testing.T) {
	f := newFakeHost(t)
	putBlobs(t, f)
	write(t, f.root+"/etc/app/other.conf", "the administrator's")
	testkit.Must(t, os.Symlink("/elsewhere", f.root+"/usr/local/bin/app"))
	f.apply(t, config())
	write(t, f.root+"/etc/app/foreign", "x")
	f.apply(t, machine.Config{Machine: "demo-w-1"})
	for p, want := range map[string]string{
		"/etc/app/other.conf": "the administrator's", "/usr/local/bin/app": "link to /elsewhere", "/etc/app/foreign": "x", "/etc/app/app.conf": "",
	} {
		if got := f.content(p); got != want {
			t.Errorf("%s: %q, want %q", p, got, want)
		}
	}
	if host.IsDir(f.root + "/var/lib/app") {
		t.Error("a directory that the agent made is left, empty")
	}
}
