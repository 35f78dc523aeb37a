package agent

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// sysctlOp is a kernel setting to change.
type sysctlOp struct {
	key, value, old string
}

// diffSysctls compares the kernel's values with the wanted ones. A setting that the kernel does not have may still come with a module
// that is to be loaded.
func (a *Agent) diffSysctls(want map[string]string, loading bool) ([]sysctlOp, error) {
	var out []sysctlOp
	for _, key := range slices.Sorted(maps.Keys(want)) {
		data, err := os.ReadFile(a.sysctlPath(key))
		if errors.Is(err, fs.ErrNotExist) && loading {
			out = append(out, sysctlOp{key, want[key], "absent"})
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
			out = append(out, sysctlOp{key, want[key], old})
		}
	}
	return out, nil
}

func noSetting(key string) error {
	return fail.New(fail.Refused, "this kernel has no setting %s", key).Do("load the kernel module it belongs to, or use another kernel")
}

func (s sysctlOp) change() machine.Change {
	return machine.Change{Kind: "sysctl", Name: s.key, Action: "update", Why: s.old + " → " + s.value}
}

func (a *Agent) setSysctl(key, value string) error {
	// Not atomic by rename: it is the kernel's file. O_TRUNC would be a second write.
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

// sysctlPath follows sysctl.d(5): whichever of "." and "/" comes first separates, the other stands for itself.
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

// enough reports whether key is an upper limit that is already more generous than wanted: those are never lowered.
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

// normal makes values comparable: the kernel separates the fields of one setting by tabs.
func normal(v string) string { return strings.Join(strings.Fields(v), " ") }
