package agent

import (
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

// TestOverruledSettings: systemd reads our settings last; an error names the line of a later file that overrides one.
func TestOverruledSettings(t *testing.T) {
	for file, text := range map[string]string{
		"/etc/sysctl.d/99-sysctl.conf":       "net.ipv4.ip_forward=0\n", // before ours
		"/etc/sysctl.d/zzz.conf":             "# net.ipv4.ip_forward=0\nnet.ipv4.ip_forward = 1\nvm.swappiness=1\nfs.inotify.max_user_instances=9999\n",
		"/usr/lib/sysctl.d/zzz-refused.conf": "\n-net/ipv4/ip_forward=0\n",
		"/run/sysctl.d/zzz-hidden.conf":      "net.ipv4.ip_forward=1\n",
		"/lib/sysctl.d/zzz-hidden.conf":      "net.ipv4.ip_forward=0\n",
	} {
		f := newFakeHost(t)
		putBlobs(t, f)
		write(t, f.root+file, text)
		if strings.HasSuffix(file, "hidden.conf") {
			write(t, f.root+"/run/sysctl.d/zzz-hidden.conf", "net.ipv4.ip_forward=1\n")
		}
		_, err := f.agent().Apply(t.Context(), config(), true)
		if strings.Contains(file, "refused") {
			testkit.Fails(t, err, fail.Conflict, "/usr/lib/sysctl.d/zzz-refused.conf:2")
		} else if err != nil {
			t.Errorf("%s: %v", file, err)
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
