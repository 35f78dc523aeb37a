package agent

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/machine"
)

// config has the fields of a configuration that are needed to find ctr.
func (r *reset) config() machine.Config {
	var c machine.Config
	for p, s := range r.st.Paths {
		if s.Kind == "binary" && strings.HasSuffix(p, "/ctr") {
			c.Binaries = append(c.Binaries, machine.Binary{Path: p})
		}
	}
	return c
}

// removeNetworks removes the links and packet filter tables of CNI, flannel and kube-proxy. Only those programs use these names.
func (r *reset) removeNetworks(ctx context.Context) error {
	if !r.isNode() {
		return nil
	}
	for _, link := range []string{"cni0", "flannel.1", "flannel-v6.1", "kube-ipvs0", "nodelocaldns"} {
		if !host.IsDir(r.path("/sys/class/net/"+link)) && r.root.Read("/sys/class/net/"+link+"/ifindex") == "" {
			continue
		}
		if _, err := r.run.Run(ctx, nil, "ip", "link", "delete", link); err != nil {
			return unitFailure(ctx, err, "remove network link "+link)
		}
		r.did("link", link, "remove")
	}
	if err := r.removeChains(ctx); err != nil {
		return err
	}
	tables, err := r.tables(ctx)
	if err != nil {
		return nil // no nft, or no nftables in this kernel: then no table exists either
	}
	for _, t := range tables {
		if _, err := r.run.Run(ctx, nil, "nft", "delete", "table", t[0], t[1]); err != nil {
			return unitFailure(ctx, err, "remove packet filter table "+t[1])
		}
		r.did("table", t[0]+" "+t[1], "remove")
	}
	return nil
}

// removeChains removes kubelet's iptables chains, whose names begin with KUBE-, and the rules that jump to them.
func (r *reset) removeChains(ctx context.Context) error {
	for _, family := range []string{"iptables", "ip6tables"} {
		saved, err := r.run.Run(ctx, nil, family+"-save")
		if err != nil {
			continue // no such program, or no such tables in this kernel: then kubelet made no chains either
		}
		var kept strings.Builder
		for line := range strings.Lines(string(saved)) {
			if !strings.Contains(line, "KUBE-") {
				kept.WriteString(line)
			}
		}
		if kept.Len() == len(saved) {
			continue
		}
		if _, err := r.run.Run(ctx, strings.NewReader(kept.String()), family+"-restore"); err != nil {
			return unitFailure(ctx, err, "remove the "+family+" chains of Kubernetes")
		}
		r.did("chains", family+" KUBE-", "remove")
	}
	return nil
}

// tables lists family and name of Kubernetes' packet filter tables.
func (r *reset) tables(ctx context.Context) ([][2]string, error) {
	out, err := r.run.Run(ctx, nil, "nft", "--json", "list", "tables")
	if err != nil {
		return nil, err
	}
	var list struct {
		Nftables []struct {
			Table *struct{ Family, Name string } `json:"table"`
		} `json:"nftables"`
	}
	if err := json.Unmarshal(out, &list); err != nil {
		return nil, err
	}
	names := []string{"kube-proxy", "flannel-ipv4", "flannel-ipv6"}
	var found [][2]string
	for _, e := range list.Nftables {
		if e.Table != nil && (slices.Contains(names, e.Table.Name) || strings.HasPrefix(e.Table.Name, "cni_")) {
			found = append(found, [2]string{e.Table.Family, e.Table.Name})
		}
	}
	return found, nil
}
