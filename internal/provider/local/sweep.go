package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/local/hostnet"
	"github.com/naupegos/naupegos/internal/provider/local/process"
	"github.com/naupegos/naupegos/internal/provider/local/shared"
)

// sweep removes the cluster's last traces and verifies that none is left. Its error names every remaining trace.
func (p *Provider) sweep(ctx context.Context) error {
	if err := p.checkOwner(); err != nil {
		return err
	}
	groups, err := process.InHierarchies(p.n.cgroups())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, p.opts.Timeouts.Kill)
	defer cancel()
	if err := process.KillCgroups(ctx, groups); err != nil {
		return err
	}
	if err := process.RemoveCgroups(ctx, groups); err != nil {
		return err
	}
	if err := process.RemoveUnits(ctx, p.n.unitPattern()); err != nil {
		return err
	}
	if err := removeEmptyParents(ctx); err != nil {
		return err
	}
	if err := p.unmount(ctx, ""); err != nil {
		return err
	}
	if err := p.removeNetwork(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(p.n.dir()); err != nil {
		return err
	}
	left, err := p.left(ctx)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fail.New(fail.Internal, "still there: %s", strings.Join(left, "; ")).At(p.opts.ClusterName).Do("destroy again; if it stays, remove it by hand")
	}
	return nil
}

// removeEmptyParents removes the parent cgroups and the slice of all clusters, if this cluster was the last. It holds the host's lock,
// because another cluster's machine may be about to enter them.
func removeEmptyParents(ctx context.Context) error {
	release, err := shared.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	return process.RemoveEmptyGroups(ctx)
}

// left lists everything of the cluster that is still on this host.
func (p *Provider) left(ctx context.Context) ([]string, error) {
	var out []string
	mounts, err := p.mountsUnder("")
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		out = append(out, "mount "+m)
	}
	links, err := hostnet.LinksOf(p.n.linkPrefix())
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		out = append(out, "link "+l)
	}
	if table, err := hostnet.TableExists(ctx, p.n.table()); err != nil {
		return nil, err
	} else if table {
		out = append(out, "nftables table inet "+p.n.table())
	}
	groups, err := process.InHierarchies(p.n.cgroups())
	if err != nil {
		return nil, err
	}
	for _, d := range append(groups, p.n.dir()) {
		if _, err := os.Stat(d); err == nil {
			out = append(out, "directory "+d)
		}
	}
	processes, err := processesAbout(p.n.machines() + "/")
	return append(out, processes...), err
}

// mountsUnder lists mounts below a machine's directory (or, for no name, the cluster's), deepest first.
func (p *Provider) mountsUnder(name string) ([]string, error) {
	prefix := p.n.dir() + "/"
	if name != "" {
		prefix = p.n.machine(name) + "/"
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) { return !strings.HasPrefix(m.Mountpoint, prefix), false })
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range mounts {
		out = append(out, m.Mountpoint)
	}
	slices.Sort(out)
	slices.Reverse(out)
	return out, nil
}

// unmount removes mounts below a machine's directory (or, for no name, the cluster's). Machines mount in their own name space, so other
// programs made these mounts, but they would prevent the removal of the directory. A busy mount is detached lazily.
func (p *Provider) unmount(_ context.Context, name string) error {
	mounts, err := p.mountsUnder(name)
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if err := unix.Unmount(m, 0); err == nil || errors.Is(err, unix.EINVAL) {
			continue
		}
		if err := unix.Unmount(m, unix.MNT_DETACH); err != nil {
			return fmt.Errorf("unmount %s: %w", m, err)
		}
	}
	return nil
}

// processesAbout lists supervisors, by an argument that is a directory directly below prefix, and systemd-nspawn processes, by
// --directory below prefix.
func processesAbout(prefix string) ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		data, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil {
			continue // ended in the meantime
		}
		args := strings.Split(string(data), "\x00")
		ours := func(a string) bool {
			rest, found := strings.CutPrefix(a, prefix)
			return found && !strings.Contains(rest, "/") || strings.HasPrefix(a, "--directory="+prefix)
		}
		if slices.ContainsFunc(args, ours) {
			out = append(out, fmt.Sprintf("process %d (%s)", pid, filepath.Base(args[0])))
		}
	}
	return out, nil
}
