package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestFlushedTable: a packet filter whose rules have gone is loaded again, although its unit is active.
func TestFlushedTable(t *testing.T) {
	const gone = "Error: No such file or directory\nlist table inet naupegos"
	c := config()
	c.Units[2].Table = "inet naupegos" // lb.service reloads
	for name, k := range map[string]struct {
		says, fails string
		want        bool
	}{
		"there":          {says: `{"nftables": [{"metainfo": {}}, {"table": {"name": "naupegos"}}, {"rule": {"chain": "input"}}]}`},
		"deleted":        {fails: gone, want: true},
		"without rules":  {says: `{"nftables": [{"table": {"name": "naupegos"}}, {"set": {"name": "visitors"}}]}`, want: true},
		"not to be read": {fails: "Error: Could not process rule: Operation not permitted"},
	} {
		f := applied(t)
		f.apply(t, c)
		f.nft = k.says
		f.fail = func(argv []string) error {
			if argv[0] == "nft" && k.fails != "" {
				return &CommandError{Argv: argv, Code: 1, Stderr: k.fails}
			}
			return nil
		}
		r := testkit.Value(f.agent().Apply(t.Context(), c, true))(t)
		if got := len(r.Changes) == 1 && r.Changes[0].Name == "lb.service" && r.Changes[0].Action == "reload" && strings.Contains(r.Changes[0].Why, "inet naupegos"); got != k.want || !k.want && len(r.Changes) > 0 {
			t.Errorf("%s: changes %+v", name, r.Changes)
		}
		f.ran()
		f.apply(t, c)
		if got := strings.Contains(strings.Join(f.ran(), "\n"), "systemctl reload -- lb.service"); got != k.want {
			t.Errorf("%s: reloaded: %v", name, got)
		}
	}
}

// TestOverruledSettings: systemd reads our settings last; an error names the line of the later file that overrides one. As in sysctl.d(5), the last
// value counts, and a file replaces files of the same name in later directories.
func TestOverruledSettings(t *testing.T) {
	const on, off = "net.ipv4.ip_forward = 1\n", "\n-net/ipv4/ip_forward=0\n"
	for name, c := range map[string]struct {
		files   map[string]string // "→" begins the target of a link
		refused string
	}{
		"before ours":       {files: map[string]string{"/etc/sysctl.d/99-sysctl.conf": off}},
		"the same":          {files: map[string]string{"/etc/sysctl.d/zzz.conf": "# net.ipv4.ip_forward=0\n" + on + "vm.swappiness=1\nfs.inotify.max_user_instances=9999\n"}},
		"refused":           {map[string]string{"/usr/lib/sysctl.d/zzz-refused.conf": off}, "/usr/lib/sysctl.d/zzz-refused.conf:2"},
		"hidden":            {files: map[string]string{"/run/sysctl.d/zzz.conf": on, "/lib/sysctl.d/zzz.conf": off}},
		"hides":             {map[string]string{"/run/sysctl.d/zzz.conf": off, "/lib/sysctl.d/zzz.conf": on}, "/run/sysctl.d/zzz.conf:2"},
		"masked":            {files: map[string]string{"/etc/sysctl.d/zzz.conf": "→/dev/null", "/lib/sysctl.d/zzz.conf": off}},
		"a link to nothing": {files: map[string]string{"/etc/sysctl.d/zzz.conf": "→/nothing"}},
		"does not hide":     {map[string]string{"/etc/sysctl.d/zzz.conf": "→/nothing", "/lib/sysctl.d/zzz.conf": off}, "/lib/sysctl.d/zzz.conf:2"},
		"mended below":      {files: map[string]string{"/etc/sysctl.d/zzz.conf": off + on}},
		"mended later":      {files: map[string]string{"/etc/sysctl.d/zzz1.conf": off, "/lib/sysctl.d/zzz2.conf": on}},
		"earlier directory": {map[string]string{"/etc/sysctl.d/zzz1.conf": on, "/lib/sysctl.d/zzz2.conf": off}, "/lib/sysctl.d/zzz2.conf:2"},
		"not mended":        {map[string]string{"/etc/sysctl.d/zzz2.conf": off, "/lib/sysctl.d/zzz1.conf": on}, "/etc/sysctl.d/zzz2.conf:2"},
	} {
		f := newFakeHost(t)
		putBlobs(t, f)
		for file, text := range c.files {
			testkit.Must(t, os.MkdirAll(filepath.Dir(f.root+file), 0o755))
			if target, ok := strings.CutPrefix(text, "→"); ok {
				testkit.Must(t, os.Symlink(target, f.root+file))
			} else {
				write(t, f.root+file, text)
			}
		}
		_, err := f.agent().Apply(t.Context(), config(), true)
		if c.refused != "" {
			testkit.Fails(t, err, fail.Conflict, c.refused)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestForwardDrops: policies in the kernel and in files that are loaded at boot.
func TestForwardDrops(t *testing.T) {
	for name, k := range map[string]struct{ iptables, nft, file, text, want string }{
		"none":       {iptables: "-P FORWARD ACCEPT\n", nft: `{"nftables": [{"chain": {"family": "inet", "table": "t", "name": "c", "hook": "forward", "policy": "accept"}}]}`},
		"Docker":     {iptables: "-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n", want: "iptables"},
		"nftables":   {nft: `{"nftables": [{"metainfo": {}}, {"chain": {"family": "inet", "table": "t", "name": "c", "hook": "forward", "policy": "drop"}}]}`, want: "chain c of table inet t of nftables"},
		"a bridge's": {nft: `{"nftables": [{"chain": {"family": "bridge", "table": "t", "name": "c", "hook": "forward", "policy": "drop"}}]}`},
		"input":      {nft: `{"nftables": [{"chain": {"family": "inet", "table": "t", "name": "c", "hook": "input", "policy": "drop"}}]}`},
		"at boot":    {file: "netfilter-persistent.service /etc/iptables/rules.v4", text: "*filter\n:INPUT ACCEPT\n:FORWARD DROP [0:0]\n", want: "/etc/iptables/rules.v4"},
		"at boot, nftables": {file: "nftables.service /etc/nftables.conf", text: "table inet f {\n chain x { type filter hook forward priority 0; policy drop; }\n}\n",
			want: "/etc/nftables.conf"},
		"not at boot": {file: "x.service /etc/iptables/rules.v4", text: ":FORWARD DROP [0:0]\n"},
	} {
		f := newFakeHost(t)
		f.nft, f.iptables = k.nft, k.iptables
		if unit, file, ok := strings.Cut(k.file, " "); ok {
			write(t, f.root+"/etc/systemd/system/multi-user.target.wants/"+unit, "")
			write(t, f.root+file, k.text)
		}
		if got := forwardDrops(t.Context(), f.agent()); got != k.want {
			t.Errorf("%s: %q, want %q", name, got, k.want)
		}
	}
}
