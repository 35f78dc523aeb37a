package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// enableOp enables or disables a unit at boot.
type enableOp struct {
	unit machine.Unit
	on   bool
	from string // content of the unit's file, for its [Install] section
}

func (a *Agent) enableOps(units []machine.Unit, states map[string]unitState) ([]enableOp, error) {
	var out []enableOp
	for _, u := range units {
		s := states[u.Name]
		switch {
		case u.Content == "" && s.load == "not-found":
			return nil, fail.New(fail.NotFound, "the machine has no unit %s", u.Name).At(u.Name).Do("install the package that brings it")
		case u.Content == "" && s.load == "masked":
			return nil, fail.New(fail.Refused, "unit %s is masked", u.Name).At(u.Name).Do("run `systemctl unmask %s` on the machine", u.Name)
		case u.Enabled && !s.enabled():
			out = append(out, enableOp{unit: u, on: true, from: s.fragment})
		case !u.Enabled && s.enabled():
			out = append(out, enableOp{unit: u, from: s.fragment})
		}
	}
	return out, nil
}

func (o enableOp) change() machine.Change {
	c := machine.Change{Kind: "unit", Name: o.unit.Name, Action: "disable"}
	if o.on {
		c.Action = "enable"
	}
	return c
}

// enable carries out ops. Simple units are enabled by creating the links that systemctl would create, and disabled by removing them: this needs no
// process and leaves the links of old init scripts alone. All other units are left to systemctl.
func (a *Agent) enable(ctx context.Context, ops []enableOp) error {
	var on, off []string
	for _, o := range ops {
		dirs, target, err := a.install(o)
		if err != nil {
			return err
		}
		switch {
		case o.on && dirs == nil:
			on = append(on, o.unit.Name)
		case dirs == nil:
			off = append(off, o.unit.Name)
		default:
			if err := a.link(o, dirs, target); err != nil {
				return err
			}
		}
	}
	for verb, names := range map[string][]string{"enable": on, "disable": off} {
		if len(names) == 0 {
			continue
		}
		if _, err := a.systemctl(ctx, append([]string{verb, "--quiet", "--"}, names...)...); err != nil {
			return unitFailure(ctx, err, verb+" "+strings.Join(names, " "))
		}
	}
	return nil
}

// install returns the directories of a unit's links, and the links' target. It returns no directories if systemctl has to do it.
func (a *Agent) install(o enableOp) (dirs []string, target string, err error) {
	content, target := o.unit.Content, machine.UnitPath(o.unit.Name)
	if content == "" {
		data, err := os.ReadFile(a.path(o.from))
		if errors.Is(err, fs.ErrNotExist) && !o.on {
			return nil, "", nil
		}
		if err != nil {
			return nil, "", fileError(err, "read unit "+o.unit.Name, o.from)
		}
		content, target = string(data), o.from
	}
	dirs, plain := installDirs(content)
	if !plain || strings.Contains(o.unit.Name, "@") {
		return nil, "", nil
	}
	if len(dirs) == 0 && o.on {
		return nil, "", fail.New(fail.Invalid, "unit %s can't be enabled: it has no WantedBy= in an [Install] section", o.unit.Name).At(target)
	}
	return dirs, target, nil
}

// link creates or removes a unit's links.
func (a *Agent) link(o enableOp, dirs []string, target string) error {
	for _, d := range dirs {
		dir := a.path(machine.UnitDir + "/" + d)
		link := filepath.Join(dir, o.unit.Name)
		if err := removePath(link, link); err != nil {
			return err
		}
		if !o.on {
			continue
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fileError(err, "enable "+o.unit.Name, d)
		}
		if err := os.Symlink(target, link); err != nil {
			return fileError(err, "enable "+o.unit.Name, d)
		}
		if err := syncPath(dir, d); err != nil {
			return err
		}
	}
	return nil
}

// installDirs returns the directories of the [Install] section: "multi-user.target.wants" and the like. plain is false if systemctl has to do it.
func installDirs(content string) (dirs []string, plain bool) {
	section, plain := "", true
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if line[0] == '[' {
			section = line
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		suffix := map[string]string{"WantedBy": ".wants", "RequiredBy": ".requires"}[strings.TrimSpace(key)]
		switch {
		case section != "[Install]":
		case suffix == "" || strings.ContainsAny(value, `\%`):
			plain = false
		default:
			for _, t := range strings.Fields(value) {
				dirs = append(dirs, t+suffix)
			}
		}
	}
	return slices.Compact(dirs), plain
}
