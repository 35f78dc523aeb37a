package machine

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/internal/fail"
)

// Merge combines configurations. Several layers may contain the same path (or setting, or image) if they agree; otherwise the error (fail.Conflict)
// names it and both layers. A unit may be spread over layers: one sets its content, others add drop-ins and watches. Units keep the order of their
// first appearance.
func Merge(layers ...Config) (Config, error) {
	m := merger{from: map[string]int{}}
	for i, l := range layers {
		m.layer = i + 1
		if err := m.add(l); err != nil {
			return Config{}, err
		}
	}
	return m.out, nil
}

// merger holds the result and remembers the layer of each item.
type merger struct {
	out   Config
	layer int
	from  map[string]int
}

func (m *merger) add(l Config) error {
	if l.Machine != "" {
		if m.out.Machine != "" && m.out.Machine != l.Machine {
			return m.conflict("machine", m.out.Machine, "the other is "+l.Machine)
		}
		m.out.Machine = l.Machine
		m.note("machine", l.Machine)
	}
	steps := []func(Config) error{m.directories, m.files, m.links, m.binaries, m.images, m.settings, m.units}
	for _, step := range steps {
		if err := step(l); err != nil {
			return err
		}
	}
	return nil
}

func (m *merger) note(kind, name string) {
	if _, ok := m.from[kind+" "+name]; !ok {
		m.from[kind+" "+name] = m.layer
	}
}

func (m *merger) conflict(kind, name, why string) error {
	first := m.from[kind+" "+name]
	if first == m.layer {
		return fail.New(fail.Conflict, "%s %s is given twice in configuration layer %d: %s", kind, name, m.layer, why)
	}
	return fail.New(fail.Conflict, "%s %s differs between configuration layers %d and %d: %s", kind, name, first, m.layer, why)
}

func (m *merger) directories(l Config) error {
	for _, d := range l.Directories {
		i := slices.IndexFunc(m.out.Directories, func(o Directory) bool { return o.Path == d.Path })
		if i < 0 {
			m.note("directory", d.Path)
			m.out.Directories = append(m.out.Directories, d)
			continue
		}
		if o := m.out.Directories[i]; o.Mode != d.Mode || owner(o.Owner) != owner(d.Owner) {
			return m.conflict("directory", d.Path, fmt.Sprintf("%04o %s and %04o %s", o.Mode, owner(o.Owner), d.Mode, owner(d.Owner)))
		}
	}
	return nil
}

func (m *merger) files(l Config) error {
	for _, f := range l.Files {
		i := slices.IndexFunc(m.out.Files, func(o File) bool { return o.Path == f.Path })
		if i < 0 {
			m.note("file", f.Path)
			m.out.Files = append(m.out.Files, f)
			continue
		}
		if why := filesDiffer(m.out.Files[i], f); why != "" {
			return m.conflict("file", f.Path, why)
		}
	}
	return nil
}

func filesDiffer(a, b File) string {
	switch {
	case !bytes.Equal(a.Content, b.Content):
		return "the content is not the same"
	case a.Mode != b.Mode:
		return fmt.Sprintf("mode %04o and %04o", a.Mode, b.Mode)
	case owner(a.Owner) != owner(b.Owner):
		return "owner " + owner(a.Owner) + " and " + owner(b.Owner)
	case a.RenewedAt != b.RenewedAt:
		return fmt.Sprintf("renewed at %q and %q", a.RenewedAt, b.RenewedAt)
	case a.Secret != b.Secret:
		return "secret in one of them only"
	}
	return ""
}

func (m *merger) links(l Config) error {
	for _, k := range l.Links {
		i := slices.IndexFunc(m.out.Links, func(o Link) bool { return o.Path == k.Path })
		if i < 0 {
			m.note("link", k.Path)
			m.out.Links = append(m.out.Links, k)
		} else if m.out.Links[i] != k {
			return m.conflict("link", k.Path, m.out.Links[i].Target+" and "+k.Target)
		}
	}
	return nil
}

func (m *merger) binaries(l Config) error {
	for _, b := range l.Binaries {
		i := slices.IndexFunc(m.out.Binaries, func(o Binary) bool { return o.Path == b.Path })
		if i < 0 {
			m.note("binary", b.Path)
			m.out.Binaries = append(m.out.Binaries, b)
			continue
		}
		if o := m.out.Binaries[i]; o != b {
			return m.conflict("binary", b.Path, o.Digest+" and "+b.Digest)
		}
	}
	return nil
}

func (m *merger) images(l Config) error {
	for _, img := range l.Images {
		for _, ref := range img.Refs {
			m.note("image", ref)
			for _, o := range m.out.Images {
				if slices.Contains(o.Refs, ref) && o.Digest != img.Digest {
					return m.conflict("image", ref, o.Digest+" and "+img.Digest)
				}
			}
		}
		i := slices.IndexFunc(m.out.Images, func(o Image) bool { return o.Digest == img.Digest && o.ID == img.ID })
		if i < 0 {
			img.Refs = slices.Clone(img.Refs)
			m.out.Images = append(m.out.Images, img)
			continue
		}
		m.out.Images[i].Refs = union(m.out.Images[i].Refs, img.Refs)
	}
	return nil
}

func (m *merger) settings(l Config) error {
	if l.Release != "" {
		m.out.Release = l.Release
	}
	m.out.Hooks = append(m.out.Hooks, l.Hooks...)
	m.out.Users = union(m.out.Users, l.Users)
	m.out.Packages = union(m.out.Packages, l.Packages)
	m.out.Modules = union(m.out.Modules, l.Modules)
	m.out.KernelArguments = append(m.out.KernelArguments, l.KernelArguments...)
	for _, key := range slices.Sorted(maps.Keys(l.Sysctls)) {
		value := l.Sysctls[key]
		if old, ok := m.out.Sysctls[key]; ok && old != value {
			return m.conflict("kernel setting", key, old+" and "+value)
		}
		m.note("kernel setting", key)
		if m.out.Sysctls == nil {
			m.out.Sysctls = map[string]string{}
		}
		m.out.Sysctls[key] = value
	}
	return nil
}

func (m *merger) units(l Config) error {
	for _, u := range l.Units {
		i := slices.IndexFunc(m.out.Units, func(o Unit) bool { return o.Name == u.Name })
		if i < 0 {
			m.note("unit", u.Name)
			u.DropIns, u.Watches, u.Starts = slices.Clone(u.DropIns), slices.Clone(u.Watches), slices.Clone(u.Starts)
			m.out.Units = append(m.out.Units, u)
			continue
		}
		if err := m.unit(&m.out.Units[i], u); err != nil {
			return err
		}
	}
	return nil
}

// unit adds the fields of u to the unit of the same name from an earlier layer.
func (m *merger) unit(o *Unit, u Unit) error {
	if o.Content != "" && u.Content != "" && o.Content != u.Content {
		return m.conflict("unit", u.Name, "the content is not the same")
	}
	if o.Enabled != u.Enabled || o.Active != u.Active || o.Reload != u.Reload || o.OnDemand != u.OnDemand {
		return m.conflict("unit", u.Name, "enabled, active, reload or on demand is not the same")
	}
	if o.Content == "" {
		o.Content = u.Content
	}
	o.Private = o.Private || u.Private
	if o.Forgets == "" {
		o.Forgets = u.Forgets
	} else if u.Forgets != "" && o.Forgets != u.Forgets {
		return m.conflict("unit", u.Name, "the program that forgets what it started is not the same")
	}
	for _, d := range u.DropIns {
		j := slices.IndexFunc(o.DropIns, func(e DropIn) bool { return e.Name == d.Name })
		if j < 0 {
			o.DropIns = append(o.DropIns, d)
		} else if o.DropIns[j] != d {
			return m.conflict("unit", u.Name, "drop-in "+d.Name+" is not the same")
		}
	}
	o.Watches = union(o.Watches, u.Watches)
	for _, s := range u.Starts {
		if i := slices.IndexFunc(o.Starts, func(e Start) bool { return e.File == s.File }); i < 0 {
			o.Starts = append(o.Starts, s)
		} else if o.Starts[i] != s {
			return m.conflict("unit", u.Name, "what it starts by "+s.File+" is not the same")
		}
	}
	return nil
}

// union returns a followed by the items of b that a lacks.
func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a[:len(a):len(a)], s)
		}
	}
	return a
}
