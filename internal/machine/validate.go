package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine/items"
)

// form returns a regular expression that is compiled once, when it is needed.
func form(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}

var (
	digestForm  = form(`^sha256:[0-9a-f]{64}$`)
	ownerForm   = form(`^[a-z0-9_][a-z0-9_-]*:[a-z0-9_][a-z0-9_-]*$`)
	userForm    = form(`^[a-z_][a-z0-9_-]{0,30}$`)
	unitForm    = form(`^([A-Za-z0-9:_.@-]|\\x[0-9a-f]{2})+\.(service|socket|timer|mount|automount|swap|path|target|slice)$`)
	sysctlForm  = form(`^[a-z0-9_]+([./][A-Za-z0-9_:*-]+)+$`)
	packageForm = form(`^[a-z0-9][a-z0-9+.-]+$`)
	moduleForm  = form(`^[A-Za-z0-9_-]+$`)
	refForm     = form(`^[a-z0-9][a-zA-Z0-9./:_-]*$`)
	dropInForm  = form(`^[A-Za-z0-9_.@-]+\.conf$`)
	tableForm   = form(`^(inet|ip|ip6) [A-Za-z][A-Za-z0-9_-]*$`)
)

// Validate returns all faults of the configuration (fail.Invalid), or nil.
func (c Config) Validate() error {
	v := validator{paths: map[string]string{}, binaries: map[string]int64{}}
	for _, u := range c.Users {
		v.match("user", userForm, u)
	}
	for _, d := range c.Directories {
		v.path("directory", d.Path)
		v.mode("directory "+d.Path, d.Mode)
		v.match("directory "+d.Path+": owner", ownerForm, owner(d.Owner))
	}
	for _, f := range c.Files {
		v.path("file", f.Path)
		v.mode("file "+f.Path, f.Mode)
		v.match("file "+f.Path+": owner", ownerForm, owner(f.Owner))
		if f.RenewedAt != "" {
			v.path("file "+f.Path+": renewed at", f.RenewedAt)
		}
		if f.Secret && f.Mode.Perm()&0o077 != 0 {
			v.add("file %s is secret but its mode %04o lets others than the owner in", f.Path, f.Mode.Perm())
		}
	}
	for _, l := range c.Links {
		v.path("link", l.Path)
		if !path.IsAbs(l.Target) || path.Clean(l.Target) != l.Target {
			v.add("link %s: the target %q must be absolute and clean", l.Path, l.Target)
		}
	}
	for _, b := range c.Binaries {
		v.path("binary", b.Path)
		v.blob("binary "+b.Path, b.Digest, b.Size)
	}
	v.images(c.Images)
	for _, p := range c.Packages {
		v.match("package", packageForm, p)
	}
	for _, m := range c.Modules {
		v.match("kernel module", moduleForm, m)
	}
	for _, arg := range c.KernelArguments {
		v.match("kernel argument", items.KernelArgumentForm, arg)
	}
	for _, k := range slices.Sorted(maps.Keys(c.Sysctls)) {
		v.match("kernel setting", sysctlForm, k)
		if s := c.Sysctls[k]; s == "" || strings.ContainsAny(s, "\n\x00") {
			v.add("kernel setting %s: the value must be one line and not empty", k)
		}
	}
	v.units(c.Units)
	v.hooks(c.Hooks)
	v.nesting()
	return v.err(c.Machine)
}

// validator collects faults. paths records the owner of each path.
type validator struct {
	faults   []error
	paths    map[string]string
	binaries map[string]int64
}

func (v *validator) add(format string, args ...any) {
	v.faults = append(v.faults, fmt.Errorf(format, args...))
}

func (v *validator) err(machine string) error {
	if len(v.faults) == 0 {
		return nil
	}
	return fail.Wrap(fail.Invalid, errors.Join(v.faults...), "check the machine configuration").At(machine)
}

func (v *validator) match(what string, form func() *regexp.Regexp, value string) {
	if !form().MatchString(value) {
		v.add("%s: %q is not of the form %s", what, value, form())
	}
}

func (v *validator) mode(what string, m fs.FileMode) {
	if m&^(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0 || m.Perm() == 0 {
		v.add("%s: %v is not a permission mode", what, m)
	}
}

func (v *validator) path(kind, p string) {
	switch {
	case !strings.HasPrefix(p, "/") || path.Clean(p) != p || p == "/" || strings.ContainsAny(p, "\n\x00"):
		v.add("%s %q: the path must be absolute and clean", kind, p)
	case within(p, BlobDir) || within(p, AgentDir) || within(p, path.Dir(StateKey)):
		v.add("%s %s lies where the agent keeps its own", kind, p)
	}
	if first, ok := v.paths[p]; ok {
		v.add("path %s is claimed twice: as %s and as %s", p, first, kind)
		return
	}
	v.paths[p] = kind
}

func (v *validator) blob(what, digest string, size int64) {
	v.match(what+": digest", digestForm, digest)
	if size <= 0 {
		v.add("%s: size %d is not positive", what, size)
	}
	if old, ok := v.binaries[digest]; ok && old != size {
		v.add("%s: blob %s has sizes %d and %d", what, digest, old, size)
	}
	v.binaries[digest] = size
}

func (v *validator) images(images []Image) {
	refs := map[string]string{}
	for _, img := range images {
		if len(img.Refs) == 0 {
			v.add("image %s has no reference", img.Digest)
		}
		v.blob("image "+strings.Join(img.Refs, ","), img.Digest, img.Size)
		v.match("image "+strings.Join(img.Refs, ",")+": id", digestForm, img.ID)
		for _, r := range img.Refs {
			v.match("image reference", refForm, r)
			if other, ok := refs[r]; ok {
				v.add("image reference %s is claimed twice: by %s and %s", r, other, img.Digest)
			}
			refs[r] = img.Digest
		}
	}
}

func (v *validator) units(units []Unit) {
	for _, u := range units {
		v.match("unit", unitForm, u.Name)
		v.path("unit", UnitPath(u.Name))
		for _, d := range u.DropIns {
			v.match("unit "+u.Name+": drop-in", dropInForm, d.Name)
			v.path("drop-in", DropInPath(u.Name, d.Name))
		}
		if u.Table != "" {
			v.match("unit "+u.Name+": table", tableForm, u.Table)
		}
		for _, w := range u.Watches {
			if !path.IsAbs(w) {
				v.add("unit %s watches %q, which is not an absolute path", u.Name, w)
			}
		}
		if u.Forgets != "" && !path.IsAbs(u.Forgets) {
			v.add("unit %s forgets what it started by %q, which is not an absolute path", u.Name, u.Forgets)
		}
		for i, s := range u.Starts {
			if !path.IsAbs(s.File) {
				v.add("unit %s starts a program by %q, which is not an absolute path", u.Name, s.File)
			}
			if s.Needs != "" && !slices.ContainsFunc(u.Starts[:i], func(e Start) bool { return e.File == s.Needs }) {
				v.add("unit %s starts %s after what it needs, %q, which is not listed before it", u.Name, s.File, s.Needs)
			}
		}
	}
}

func (v *validator) hooks(hooks []Hook) {
	moments := []string{BeforeInstall, AfterInstall, BeforeUpgrade, AfterUpgrade, BeforeReset, AfterReset}
	for _, h := range hooks {
		if !slices.Contains(moments, h.When) || h.Seconds <= 0 || strings.ContainsAny(h.Name, "\n\x00%") {
			v.add("hook %q: %q is no moment, %d s no time limit, or the name is not one line", h.Name, h.When, h.Seconds)
		}
	}
}

// nesting finds files that other paths use as a directory.
func (v *validator) nesting() {
	for _, p := range slices.Sorted(maps.Keys(v.paths)) {
		for dir := path.Dir(p); dir != "/" && dir != "."; dir = path.Dir(dir) {
			if kind, ok := v.paths[dir]; ok && kind != "directory" {
				v.add("%s %s lies under %s, which is a %s", v.paths[p], p, dir, kind)
			}
		}
	}
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// UnitPath returns the path of a unit's own file.
func UnitPath(unit string) string { return UnitDir + "/" + unit }

// DropInPath returns the path of a unit's drop-in.
func DropInPath(unit, name string) string { return UnitDir + "/" + unit + ".d/" + name }
