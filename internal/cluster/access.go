package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/providers"
	"github.com/naupegos/naupegos/internal/remote"
)

// agentBinary is naupegos-agent on this side.
type agentBinary struct {
	path   string // here
	digest string // SHA-256, hexadecimal
}

// remotePath is where the agent lies on machines.
func (a agentBinary) remotePath() string {
	return machine.AgentDir + "/" + a.digest + "/naupegos-agent"
}

func readAgent(path string) (agentBinary, error) {
	f, err := os.Open(path)
	if err != nil {
		return agentBinary{}, fail.Wrap(fail.Invalid, err, "read naupegos-agent").Do("it belongs beside naupegos; `make build` makes both")
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return agentBinary{}, fail.Wrap(fail.Internal, err, "read %s", path)
	}
	return agentBinary{path: path, digest: hex.EncodeToString(h.Sum(nil))}, nil
}

// newProvider makes the provider that the document names.
func (c *Cluster) newProvider() (provider.Provider, error) {
	return providers.New(providers.Options{
		Document: c.doc, ClusterID: c.rec.ID, Bundle: c.bundle, AgentPath: c.agent.path, PublicKey: c.publicKey, Home: c.facts.Get(memory.Home),
		Runner: c.dialer, Hosts: memory.Hosts{Facts: c.facts}, HostKeys: memory.HostKeys{Facts: c.facts},
	})
}

// authorizedKeys lists who may log in to machines: Naupegos and the keys of the document.
func (c *Cluster) authorizedKeys() []string {
	return append([]string{c.publicKey}, c.doc.Spec.Access.SSHKeys...)
}

// userData renders a machine's user-data in the form that its image reads; it holds no secret.
func (c *Cluster) userData(s wanted.Slot) ([]byte, error) {
	u := machine.UserData{Hostname: s.Name, SSHKeys: c.authorizedKeys()}
	if !c.prov.Traits().HostKeysConsole {
		return machine.CloudInit(u)
	}
	u.HostKeysToConsole = true // where Naupegos reads them
	return u.Render(c.doc.Shape(string(s.Role), s.Pool).UserData)
}

// Host reports how a machine is reached by SSH: directly where it is a gateway or has an address of its own outside, all
// others through one of those, where there is one.
func (c *Cluster) Host(ctx context.Context, name string) (remote.Host, error) {
	if err := c.loadTarget(ctx); err != nil {
		return remote.Host{}, err
	}
	m, err := c.prov.Machine(ctx, name)
	if err != nil {
		return remote.Host{}, err
	}
	h := toHost(m)
	if m.Role == provider.Gateway || m.Public != "" {
		return h, nil
	}
	h.Via = c.waysIn(ctx, name)
	if len(h.Via) == 0 && len(c.gateways()) > 0 {
		return h, fail.New(fail.Unreachable, "no gateway is running, with a known SSH host key, to reach it through").At(name).
			Do("the gateways are %s", strings.Join(c.gateways(), ", "))
	}
	return h, nil
}

// waysIn lists the machines that run, or may, of those whose host keys are known, through which another one is reached: gateways, else those that have an address outside.
func (c *Cluster) waysIn(ctx context.Context, to string) []remote.Host {
	var via []remote.Host
	gateways := len(c.gateways()) > 0
	for _, s := range c.known() {
		if s.Name == to || gateways != (s.Role == provider.Gateway) {
			continue
		}
		m, err := c.prov.Machine(ctx, s.Name)
		if err != nil || !m.MayRun() || m.Address == "" || !gateways && m.Public == "" {
			continue // not a way in at the moment; another one may be
		}
		if len(m.HostKeys) == 0 && !c.trustsFirstUse() {
			continue // it has not told its keys yet
		}
		via = append(via, toHost(m))
	}
	return via
}

func toHost(m provider.Machine) remote.Host {
	h := remote.Host{Name: m.Name, Address: m.Address, Port: m.Port, User: m.User, HostKeys: m.HostKeys}
	if m.Public != "" {
		h.Address = m.Public
	}
	return h
}

// loadTarget finds out which machines there should be, where no verb has observed yet.
func (c *Cluster) loadTarget(ctx context.Context) error {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	if c.slots != nil {
		return nil
	}
	inv, err := c.prov.Observe(ctx)
	if err != nil {
		return err
	}
	c.slots, _ = wanted.Assign(c.doc, inv.Machines, c.decided())
	return nil
}

// known returns the machines that there should be, as the last look at the provider had it.
func (c *Cluster) known() []wanted.Slot {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	return c.slots
}

// setTarget says which machines there should be. Nobody may change the slice any more.
func (c *Cluster) setTarget(slots []wanted.Slot) {
	c.slotMu.Lock()
	defer c.slotMu.Unlock()
	c.slots = slots
}

// gateways lists the names of the wanted gateways.
func (c *Cluster) gateways() []string { return c.namesOf(provider.Gateway) }

// namesOf lists the wanted machines of a role, in order.
func (c *Cluster) namesOf(r provider.Role) []string {
	var names []string
	for _, s := range c.known() {
		if s.Role == r {
			names = append(names, s.Name)
		}
	}
	return names
}

// openBlob opens a blob of the bundle, to send it to a machine.
func (c *Cluster) openBlob(digest string) (io.ReadCloser, int64, error) {
	f, err := os.Open(c.bundle.Path(digest))
	if err != nil {
		return nil, 0, fail.Wrap(fail.Internal, err, "open blob %s of bundle %s", digest, c.bundle.ID).Do("run naupegos bundle verify %s", c.bundle.ID)
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, fail.Wrap(fail.Internal, err, "open blob %s", digest)
	}
	return f, st.Size(), nil
}
