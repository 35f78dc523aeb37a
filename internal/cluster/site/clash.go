package site

import (
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// Layer is a part of a machine's configuration with the name of who wants it.
type Layer struct {
	Owner string
	machine.Config
}

// Clash returns fail.Invalid if the document's settings want what another layer has already: a path, a unit or a kernel setting.
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

// things lists what only one layer may have.
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
