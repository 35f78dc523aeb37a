package agent

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// modulesDir is where the running kernel's modules lie.
func modulesDir() string {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "/lib/modules/unknown" // uname(2) fails only for a bad pointer
	}
	return "/lib/modules/" + unix.ByteSliceToString(u.Release[:])
}

// loadsModules reports whether this host has modules for its kernel. Containers and kernels with everything built in don't;
// what such a kernel can do can't be asked for by name, so nothing is tried.
func (a *Agent) loadsModules() bool {
	info, err := os.Stat(a.path(modulesDir()))
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
		{modulesDir() + "/modules.builtin", func(l string) string { n, _, _ := strings.Cut(path.Base(l), ".ko"); return n }},
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

// loadModule loads one module. That the kernel does not have it is a warning, not an error: it may do without.
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

// moduleName makes names comparable: the kernel takes - and _ for the same.
func moduleName(n string) string { return strings.ReplaceAll(n, "-", "_") }
