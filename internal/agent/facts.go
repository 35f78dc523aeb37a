package agent

import (
	"time"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/machine"
)

// Facts collects facts about the machine. Unknown facts stay empty; only a machine without /proc is an error.
func (a *Agent) Facts() (machine.Facts, error) {
	f, err := a.root.Facts()
	if err != nil {
		return machine.Facts{}, err
	}
	st, err := a.loadState()
	if err != nil {
		return machine.Facts{}, err
	}
	if f.Fresh = len(st.Units) == 0; f.Fresh {
		f.Addresses, f.Firewall, f.Services, f.Balancers, f.SELinux = host.Addresses(), a.root.Firewall(), a.root.Runtimes(), a.root.Balancers(), a.root.SELinux()
		f.Listeners, f.Volumes, f.Clock = a.root.Listeners(), a.root.Volumes(), time.Now()
	}
	return f, nil
}
