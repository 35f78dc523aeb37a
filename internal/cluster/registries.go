package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/agent/registrycheck"
	"github.com/naupegos/naupegos/internal/cluster/observe"
	"github.com/naupegos/naupegos/internal/cluster/site"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/provider"
)

// registryCheckTime bounds the check from all machines.
const registryCheckTime = registrycheck.Timeout + 5*time.Second

// checkRegistries tries registries and mirrors from the machines whose configuration is about to change, and returns one error for each unusable one
// from a machine. Machines that do not run yet can't be asked.
func checkRegistries(ctx context.Context, c *Cluster, o *observe.Observed) []error {
	var names []string
	for _, s := range o.Want {
		if seen := o.Machines[s.Name]; s.Role != provider.Gateway && seen != nil && seen.Report != nil && slices.ContainsFunc(seen.Report.Changes, changesRegistries) {
			names = append(names, s.Name)
		}
	}
	if len(c.Doc.Spec.Registries) == 0 || len(names) == 0 {
		return nil
	}
	request, err := c.RegistryCheck(ctx)
	if err != nil {
		return []error{err}
	}
	data, err := json.Marshal(request)
	if err != nil {
		return []error{fail.Wrap(fail.Internal, err, "check registries")}
	}
	ctx, cancel := context.WithTimeout(ctx, registryCheckTime)
	defer cancel()
	found := make([][]error, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { found[i] = checkRegistriesFrom(ctx, c, name, data) })
	}
	all.Wait()
	return slices.Concat(found...)
}

func changesRegistries(ch machine.Change) bool {
	return ch.Action != "remove" && (strings.HasPrefix(ch.Name, site.CertsDir+"/") || ch.Name == site.ProxyEnvironment)
}

func checkRegistriesFrom(ctx context.Context, c *Cluster, name string, request []byte) (all []error) {
	h, err := c.Host(ctx, name)
	if err != nil {
		return []error{err}
	}
	out, err := c.Dialer.Agent(ctx, h, func() io.Reader { return bytes.NewReader(request) }, "registries")
	if err != nil {
		return []error{fail.Wrap(fail.KindOf(err), err, "check registries from machine %s", name)}
	}
	var problems []registrycheck.Problem
	if err := json.Unmarshal(out, &problems); err != nil {
		return []error{fail.Wrap(fail.Internal, err, "read the agent's answer").At(name)}
	}
	for _, p := range problems {
		what := "the mirror " + p.URL + " of registry " + p.Registry
		if p.URL == site.ServerURL(p.Registry) {
			what = "registry " + p.Registry
		}
		all = append(all, fail.New(fail.Unreachable, "machine %s: %s %s", name, what, p.Why).At("spec.registries").Do("correct or remove it"))
	}
	return all
}
