package v1alpha1

import (
	"maps"
	"slices"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/machine/items"
)

// SettingsPlace is a part of a document that holds machine settings.
type SettingsPlace struct {
	Path     string // "spec.workers[0].machines"
	Settings *MachineSettings
}

// SettingsPlaces lists every part of the document that holds machine settings, spec.machines first.
func (c *Cluster) SettingsPlaces() []SettingsPlace {
	out := []SettingsPlace{{"spec.machines", &c.Spec.Machines}, {"spec.controlPlane.machines", &c.Spec.ControlPlane.Machines}}
	if g := c.Spec.Endpoint.Gateways; g != nil {
		out = append(out, SettingsPlace{"spec.endpoint.gateways.machines", &g.Machines})
	}
	for i := range c.Spec.Workers {
		out = append(out, SettingsPlace{strict.Item("spec.workers", i) + ".machines", &c.Spec.Workers[i].Machines})
	}
	return out
}

// SettingsOf returns the settings of the machines of a role and, for workers, a pool.
func (c *Cluster) SettingsOf(role, pool string) MachineSettings {
	all := c.Spec.Machines
	switch role {
	case RoleControlPlane:
		return all.with(c.Spec.ControlPlane.Machines)
	case RoleGateway:
		if g := c.Spec.Endpoint.Gateways; g != nil {
			return all.with(g.Machines)
		}
	case RoleWorker:
		for _, p := range c.Spec.Workers {
			if p.Name == pool {
				return all.with(p.Machines)
			}
		}
	}
	return all.with(MachineSettings{})
}

// with returns s overridden by the more specific settings o.
func (s MachineSettings) with(o MachineSettings) MachineSettings {
	if len(s.Sysctls)+len(o.Sysctls) > 0 {
		mine := map[string]string{}
		for key, value := range s.Sysctls {
			mine[items.SysctlName(key)] = value
		}
		for key, value := range o.Sysctls {
			mine[items.SysctlName(key)] = value
		}
		s.Sysctls = mine
	}
	s.Modules = union(s.Modules, o.Modules)
	s.KernelArguments = overArguments(s.KernelArguments, o.KernelArguments)
	s.Packages = union(s.Packages, o.Packages)
	s.TrustedCAs = union(s.TrustedCAs, o.TrustedCAs)
	s.Files = over(s.Files, o.Files, func(f MachineFile) string { return f.Path })
	s.Units = over(s.Units, o.Units, func(u MachineUnit) string { return u.Name })
	s.Repositories = over(s.Repositories, o.Repositories, func(r PackageRepository) string { return r.Name })
	if len(o.NTP.Servers) > 0 {
		s.NTP = o.NTP
	}
	if len(o.DNS.Servers) > 0 {
		s.DNS = o.DNS
	}
	if o.TimeZone != "" {
		s.TimeZone = o.TimeZone
	}
	name := func(h Hook) string { return h.Name }
	h, n := s.Hooks, o.Hooks
	s.Hooks = Hooks{
		BeforeInstall: over(h.BeforeInstall, n.BeforeInstall, name), AfterInstall: over(h.AfterInstall, n.AfterInstall, name),
		BeforeUpgrade: over(h.BeforeUpgrade, n.BeforeUpgrade, name), AfterUpgrade: over(h.AfterUpgrade, n.AfterUpgrade, name),
		BeforeReset: over(h.BeforeReset, n.BeforeReset, name), AfterReset: over(h.AfterReset, n.AfterReset, name),
	}
	return s
}

// union returns a followed by the items of b that a lacks.
func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(out, x) {
			out = append(out, x)
		}
	}
	return out
}

// over returns a with each item of b replacing the item that has the same key, or appended if none has.
func over[T any](a, b []T, key func(T) string) []T {
	out := slices.Clone(a)
	for _, x := range b {
		if i := slices.IndexFunc(out, func(o T) bool { return key(o) == key(x) }); i >= 0 {
			out[i] = x
		} else {
			out = append(out, x)
		}
	}
	return out
}

// overArguments returns b after the kernel arguments of a that set something else.
func overArguments(a, b []string) []string {
	out := slices.DeleteFunc(slices.Clone(a), func(x string) bool {
		return slices.ContainsFunc(b, func(y string) bool { return items.ArgumentGroup(x) == items.ArgumentGroup(y) })
	})
	return append(out, b...)
}

// AtMoments returns the non-empty hook lists, keyed by the document's name of the moment at which they run.
func (h Hooks) AtMoments() map[string][]Hook {
	all := map[string][]Hook{
		"beforeInstall": h.BeforeInstall, "afterInstall": h.AfterInstall, "beforeUpgrade": h.BeforeUpgrade, "afterUpgrade": h.AfterUpgrade,
		"beforeReset": h.BeforeReset, "afterReset": h.AfterReset,
	}
	maps.DeleteFunc(all, func(_ string, hooks []Hook) bool { return len(hooks) == 0 })
	return all
}
