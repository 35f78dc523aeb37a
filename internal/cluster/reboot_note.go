package cluster

import (
	"fmt"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/observe"
)

// rebootNote names the machines whose configuration takes effect only when they reboot; "" if there are none.
func rebootNote(c *Cluster, o *observe.Observed) string {
	var names []string
	for _, s := range o.Want {
		seen := o.Machines[s.Name]
		switch {
		case seen == nil || seen.Report == nil && seen.Err == nil: // it boots before it is configured
			if len(c.Doc.SettingsOf(string(s.Role), s.Pool).KernelArguments) > 0 {
				names = append(names, s.Name)
			}
		case seen.Report != nil && len(seen.Report.Reboot) > 0:
			names = append(names, s.Name+" ("+strings.Join(seen.Report.Reboot, "; ")+")")
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("kernel arguments take effect when these machines reboot: %s; after the apply, naupegos update %s reboots them one after another", strings.Join(names, ", "), c.Name())
}

// outdated returns what machines report that an apply does not change.
func outdated(o *observe.Observed) (all []string) {
	for _, s := range o.Want {
		if seen := o.Machines[s.Name]; seen != nil && seen.Report != nil {
			for _, text := range seen.Report.Warnings {
				all = append(all, s.Name+": "+text)
			}
		}
	}
	return all
}
