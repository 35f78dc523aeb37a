package agent

import (
	"context"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// adoptedUnits run on a host that kubeadm has made a node of.
func adoptedUnits() []string { return []string{containerdUnit, "kubelet.service"} }

// Adopt notes that the host is a machine of a cluster which somebody else has made, and which is ours from now on. Nothing but the agent's own
// state is written. It may be repeated. fail.Conflict where the host is a machine of another cluster.
func (a *Agent) Adopt(ctx context.Context, cluster string) error {
	unlock, err := a.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := a.loadState()
	if err != nil {
		return err
	}
	switch {
	case st.Adopted == cluster:
		return nil
	case st.Adopted != "":
		return fail.New(fail.Conflict, "the host was taken over with cluster %s", st.Adopted).Do("naupegos release lets go of that one")
	case len(st.Units) > 0:
		return fail.New(fail.Conflict, "the host is machine %s of another cluster that naupegos keeps", st.Machine).Do("naupegos release lets go of that one")
	}
	states, err := a.unitStates(ctx, adoptedUnits())
	if err != nil {
		return err
	}
	for _, name := range adoptedUnits() {
		s := states[name]
		if !s.running() {
			return fail.New(fail.NotReady, "%s does not run", name).At(name).Do("a host is taken over while it is a node: start it, then try again")
		}
		st.Units[name] = stUnit{WasEnabled: s.enabled(), WasActive: true}
	}
	st.Units["kubelet.service"] = stUnit{} // a host that leaves the cluster is no node of it any more
	st.Adopted = cluster
	return a.saveState(st)
}

// belongsToNode reports whether what lies at a path of a host that was taken over goes with its cluster: it is no original to be put back.
func belongsToNode(p string) bool {
	return strings.HasPrefix(p, "/etc/kubernetes/") || strings.HasPrefix(p, "/var/lib/kubelet/")
}
