package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// loadsModules reports whether this host has modules for its kernel. Containers, and kernels with everything built in, have none; the features of
// such a kernel can't be queried by name, so nothing is loaded.
func (a *Agent) loadsModules() bool {
	info, err := os.Stat(a.path(host.ModulesDir()))
	return err == nil && info.IsDir()
}

// diffModules returns the wanted modules that are neither loaded nor built in.
func (a *Agent) diffModules(want []string) ([]string, error) {
	if len(want) == 0 || !a.loadsModules() {
		return nil, nil
	}
	have := map[string]bool{}
	for _, src := range []struct {
		file string
		name func(line string) string
	}{
		{"/proc/modules", func(l string) string { n, _, _ := strings.Cut(l, " "); return n }},
		{host.ModulesDir() + "/modules.builtin", func(l string) string { n, _, _ := strings.Cut(path.Base(l), ".ko"); return n }},
	} {
		data, err := os.ReadFile(a.path(src.file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fail.Wrap(fail.Internal, err, "read %s", src.file)
		}
		for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
			have[moduleName(src.name(sc.Text()))] = true
		}
	}
	var out []string
	for _, m := range want {
		if !have[moduleName(m)] {
			out = append(out, m)
		}
	}
	return out, nil
}

// loadModule loads one module. If the kernel does not have it, loadModule returns a warning instead of an error, because it may not be necessary.
func (a *Agent) loadModule(ctx context.Context, name string) (warning string, err error) {
	_, err = a.run.Run(ctx, nil, "modprobe", "--", name)
	if ctx.Err() != nil {
		return "", fail.Wrap(fail.Interrupted, ctx.Err(), "load kernel module %s", name)
	}
	if err != nil {
		return fmt.Sprintf("kernel module %s can't be loaded: %v", name, err), nil
	}
	return "", nil
}

// moduleName normalizes a name: the kernel treats - and _ as equal.
func moduleName(n string) string { return strings.ReplaceAll(n, "-", "_") }

// sysctlOp is a kernel setting to change.
type sysctlOp struct {
	key, value, old string
	back            bool // it is no longer wanted: value is the one from before Naupegos
}

// staleSysctls returns operations that restore the earlier values of settings that are no longer wanted.
func staleSysctls(a *Agent, want, before map[string]string) []sysctlOp {
	var out []sysctlOp
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := want[key]; ok || before[key] == "absent" {
			continue
		}
		// A setting whose module or network is gone has nothing to restore.
		data, err := os.ReadFile(a.sysctlPath(key))
		if now := normal(string(data)); err == nil && now != normal(before[key]) {
			out = append(out, sysctlOp{key: key, value: before[key], old: now, back: true})
		}
	}
	return out
}

// diffSysctls compares the kernel's values with the wanted ones. A setting that the kernel does not have may still appear with a module that is to be
// loaded.
func (a *Agent) diffSysctls(want map[string]string, loading bool) ([]sysctlOp, error) {
	var out []sysctlOp
	for _, key := range slices.Sorted(maps.Keys(want)) {
		data, err := os.ReadFile(a.sysctlPath(key))
		if errors.Is(err, fs.ErrNotExist) && loading {
			out = append(out, sysctlOp{key: key, value: want[key], old: "absent"})
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil, noSetting(key)
		}
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read kernel setting %s", key)
		}
		old := normal(string(data))
		if old != normal(want[key]) && !enough(key, old, want[key]) {
			out = append(out, sysctlOp{key: key, value: want[key], old: old})
		}
	}
	return out, nil
}

// sysctlDirs are the directories that systemd-sysctl reads. A file replaces files of the same name in later directories.
var sysctlDirs = []string{"/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d", "/lib/sysctl.d"}

// overruled is fail.Conflict if systemd reads files after ours at boot of which the last to set one of our settings sets another value.
func (a *Agent) overruled(want map[string]string) error {
	files := map[string]string{} // by base name
	for _, dir := range slices.Backward(sysctlDirs) {
		found, _ := filepath.Glob(a.path(dir + "/*.conf")) // the pattern is good
		for _, file := range found {
			if info, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() { // systemd ignores a link to nothing
				continue
			}
			files[path.Base(file)] = path.Join(dir, path.Base(file))
		}
	}
	wanted := map[string]string{} // by the setting's file, because keys have several forms
	for key, value := range want {
		wanted[a.sysctlPath(key)] = value
	}
	last := map[string]error{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name <= path.Base(sysctlFile) {
			continue
		}
		data, err := os.ReadFile(a.path(files[name]))
		if err != nil {
			return fileError(err, "read kernel settings", files[name])
		}
		n := 0
		for line := range strings.Lines(string(data)) {
			n++
			key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "-"), "=")
			key, value = strings.TrimSpace(key), normal(value)
			if !ok || strings.HasPrefix(key, "#") || strings.HasPrefix(key, ";") {
				continue
			}
			w, ours := wanted[a.sysctlPath(key)]
			delete(last, a.sysctlPath(key))
			if ours && value != normal(w) && !enough(key, value, w) {
				last[a.sysctlPath(key)] = fail.New(fail.Conflict, "%s is set to %s after Naupegos sets it to %s, at each boot", key, value, w).
					At(fmt.Sprintf("%s:%d", files[name], n)).Do("remove the line there, or set the same value in spec.machines")
			}
		}
	}
	if settings := slices.Sorted(maps.Keys(last)); len(settings) > 0 {
		return last[settings[0]]
	}
	return nil
}

func noSetting(key string) error {
	return fail.New(fail.Refused, "this kernel has no setting %s", key).
		Do("load the kernel module it belongs to; if %s is gone since the kernel was updated, reboot; or use another kernel", host.ModulesDir())
}

func (s sysctlOp) change() machine.Change {
	why := s.old + " → " + s.value
	if s.back {
		why += ", as before"
	}
	return machine.Change{Kind: "sysctl", Name: s.key, Action: "update", Why: why}
}

func (a *Agent) setSysctl(key, value string) error {
	// Not atomic by rename, because the file is the kernel's. O_TRUNC would cause a second write.
	f, err := os.OpenFile(a.sysctlPath(key), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(value + "\n")
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return noSetting(key)
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fail.Wrap(fail.Refused, err, "set kernel setting %s to %s", key, value).
			Do("this machine may not change it (a container?): run `sysctl -w %s='%s'` on the host", key, value)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ERANGE):
		return fail.Wrap(fail.Invalid, err, "set kernel setting %s to %s", key, value).Do("the kernel does not take this value")
	}
	return fail.Wrap(fail.Internal, err, "set kernel setting %s to %s", key, value)
}

// sysctlPath follows sysctl.d(5): the first of "." and "/" is the separator, the other one stands for itself.
func (a *Agent) sysctlPath(key string) string {
	if i := strings.IndexAny(key, "./"); i >= 0 && key[i] == '.' {
		key = strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, key)
	}
	return a.path("/proc/sys/" + key)
}

// enough reports whether key is a limit that is already higher than wanted. Such limits are never lowered.
func enough(key, have, want string) bool {
	limit := strings.HasPrefix(key, "fs.inotify.max_")
	for _, l := range []string{
		"fs.file-max", "fs.nr_open", "fs.aio-max-nr", "vm.max_map_count", "kernel.pid_max", "kernel.threads-max",
		"kernel.keys.root_maxkeys", "kernel.keys.root_maxbytes", "kernel.keys.maxkeys", "kernel.keys.maxbytes",
		"net.core.somaxconn", "net.core.netdev_max_backlog", "net.netfilter.nf_conntrack_max",
	} {
		limit = limit || key == l
	}
	h, err1 := strconv.ParseUint(have, 10, 64)
	w, err2 := strconv.ParseUint(normal(want), 10, 64)
	return limit && err1 == nil && err2 == nil && h >= w
}

// normal normalizes values: the kernel separates the fields of a setting by tabs.
func normal(v string) string { return strings.Join(strings.Fields(v), " ") }

// setSysctls changes kernel settings.
func (a *Agent) setSysctls(ops []sysctlOp) error {
	for _, s := range ops {
		if err := a.setSysctl(s.key, s.value); err != nil {
			return err
		}
	}
	return nil
}

// loadModules loads missing modules; failures become warnings.
func (a *Agent) loadModules(ctx context.Context, report *machine.Report, d *diff) error {
	for _, m := range d.modules {
		warning, err := a.loadModule(ctx, m)
		switch {
		case err != nil:
			return err
		case warning != "":
			report.Warnings = append(report.Warnings, warning)
		default:
			report.Changes = append(report.Changes, machine.Change{Kind: "module", Name: m, Action: "load"})
		}
	}
	return nil
}
