package site

import (
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// Layer is a part of a machine's configuration and the name of its owner.
type Layer struct {
	Owner string
	machine.Config
}

// Clash returns fail.Invalid if the document's settings contain a path, unit or kernel setting that another layer already sets.
func Clash(name string, settings machine.Config, layers ...Layer) error {
	for _, l := range layers {
		taken := things(l.Config)
		for thing := range things(settings) {
			if taken[thing] {
				return fail.New(fail.Invalid, "%s is wanted by two: the document's settings of machines, and %s", thing, l.Owner).At(name).
					Do("remove it from spec.machines, or from the machines of its role or pool")
			}
		}
	}
	return nil
}

// things lists the items of a configuration that only one layer may set.
func things(c machine.Config) map[string]bool {
	out := map[string]bool{}
	for _, f := range c.Files {
		out["file "+f.Path] = true
	}
	for _, l := range c.Links {
		out["file "+l.Path] = true
	}
	for _, b := range c.Binaries {
		out["file "+b.Path] = true
	}
	for _, u := range c.Units {
		out["unit "+u.Name] = true
		if u.Content != "" {
			out["file "+machine.UnitPath(u.Name)] = true
		}
		for _, d := range u.DropIns {
			out["file "+machine.DropInPath(u.Name, d.Name)] = true
		}
	}
	for key := range c.Sysctls {
		out["kernel setting "+key] = true
	}
	return out
}
