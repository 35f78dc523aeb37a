package cluster

import (
	"context"
	"fmt"

	"github.com/naupegos/naupegos/internal/provider"
)

// Check reports whether the provider can serve what the document wants, and which machines that exist don't answer. It changes nothing.
// The error is one of looking; what is found wrong is a check.
func (c *Cluster) Check(ctx context.Context) ([]provider.Check, error) {
	o, err := c.Observe(ctx)
	if err != nil {
		return nil, err
	}
	want, err := c.wantedMachines(o.Want)
	if err != nil {
		return nil, err
	}
	name := "provider " + c.doc.Spec.Provider.Name()
	out := []provider.Check{{Name: name, Result: provider.Fine, Detail: fmt.Sprintf("can serve the %s of cluster %s", plural(len(want.Machines), "machine"), c.Name())}}
	if err := c.prov.Preflight(ctx, want); err != nil {
		out[0].Result, out[0].Detail = provider.Failing, err.Error()
	} else if w, ok := c.prov.(provider.Warner); ok {
		for _, text := range w.Warnings() {
			out = append(out, provider.Check{Name: name, Result: provider.Warning, Detail: text})
		}
	}
	for _, s := range o.Want {
		if seen := o.Machines[s.Name]; seen != nil {
			out = append(out, checkMachine(s.Name, seen))
		}
	}
	return out, nil
}

func checkMachine(name string, seen *Seen) provider.Check {
	check := provider.Check{Name: "machine " + name, Result: provider.Fine, Detail: "answers"}
	switch {
	case seen.Machine.State == provider.Unreachable:
		check.Result, check.Detail = provider.Failing, seen.Machine.Detail
	case seen.Machine.State != provider.Running:
		check.Result, check.Detail = provider.Warning, fmt.Sprintf("is %s: naupegos apply starts it", seen.Machine.State)
	case seen.Err != nil:
		check.Result, check.Detail = provider.Failing, seen.Err.Error()
	case seen.Report == nil:
		check.Result, check.Detail = provider.Warning, "was not asked: the cluster is not up yet, or its bundle is not here"
	}
	return check
}
