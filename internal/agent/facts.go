package agent

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/machine"
)

// Facts collects facts about the machine. Unknown facts stay empty; only a machine without /proc is an error.
func (a *Agent) Facts(ctx context.Context) (machine.Facts, error) {
	f, err := a.root.Facts()
	if err != nil {
		return machine.Facts{}, err
	}
	st, err := a.loadState()
	if err != nil {
		return machine.Facts{}, err
	}
	f.Clock = time.Now()
	if f.Fresh = len(st.Units) == 0 || st.Preparing; f.Fresh {
		f.Addresses, f.Firewall, f.Services, f.Balancers, f.SELinux = host.Addresses(), a.root.Firewall(), a.root.Runtimes(), a.root.Balancers(), a.root.SELinux()
		f.Listeners, f.Volumes, f.Leftovers, f.ForwardDrops = a.root.Listeners(), a.root.Volumes(), a.root.Leftovers(), forwardDrops(ctx, a)
	}
	return f, nil
}

// forwardDrops names what drops forwarded packets by its policy: Docker's rules in the kernel, which stay after it has stopped, a chain of
// nftables, or a file with rules that are loaded at boot.
func forwardDrops(ctx context.Context, a *Agent) string {
	if out, err := a.run.Run(ctx, nil, "iptables", "-S", "FORWARD"); err == nil && strings.HasPrefix(string(out), "-P FORWARD DROP") {
		return "iptables"
	}
	var list struct {
		Nftables []struct {
			Chain *struct{ Family, Table, Name, Hook, Policy string } `json:"chain"`
		} `json:"nftables"`
	}
	if out, err := a.run.Run(ctx, nil, "nft", "--json", "list", "chains"); err == nil && json.Unmarshal(out, &list) == nil {
		for _, e := range list.Nftables {
			if c := e.Chain; c != nil && c.Hook == "forward" && c.Policy == "drop" && c.Family != "bridge" && c.Family != "ip6" {
				return "chain " + c.Name + " of table " + c.Family + " " + c.Table + " of nftables"
			}
		}
	}
	return a.root.ForwardDrops()
}
