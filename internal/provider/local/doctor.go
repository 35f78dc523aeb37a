package local

import (
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local/shared"
)

// CheckHost reports what this host has and lacks for local machines of any cluster. It compares memory and disk with the needs of the
// seven machines of a default document; too little is a warning, because a smaller cluster may fit.
func CheckHost() ([]provider.Check, error) {
	o := Options{ClusterID: "check"}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	h, err := thisHost()
	if err != nil {
		return nil, err
	}
	cp, worker, gateway := provider.ControlPlane, provider.Worker, provider.Gateway
	checks := h.report(hostNeeds{
		machines: []provider.Role{cp, cp, cp, worker, worker, gateway, gateway}, image: true, base: true, roots: []string{o.Root, o.ImageRoot},
	})
	settings, err := checkSettings()
	return append(checks, settings), err
}

// report turns each part into a check.
func (h host) report(n hostNeeds) []provider.Check {
	var out []provider.Check
	for _, p := range h.parts(n) {
		c := provider.Check{Name: p.name, Result: provider.Fine, Detail: p.found}
		if len(p.problems) > 0 {
			c.Result, c.Detail = provider.Failing, strings.Join(p.problems, "; ")
			if p.smaller {
				c.Result = provider.Warning
			}
		}
		out = append(out, c)
	}
	return out
}

// checkSettings reports the kernel's settings that machines need. Low ones are no fault: the first machine raises them.
func checkSettings() (provider.Check, error) {
	c := provider.Check{Name: "kernel settings", Result: provider.Fine, Detail: "ip_forward and inotify's limits are high enough"}
	low, err := shared.LowSettings()
	if err != nil {
		return c, err
	}
	if len(low) > 0 {
		c.Detail = fmt.Sprintf("set while machines exist: %s", strings.Join(shared.Describe(low), ", "))
	}
	return c, nil
}
