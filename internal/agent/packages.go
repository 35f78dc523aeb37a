package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/agent/dpkg"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
)

// diffPackages returns the wanted packages that are not installed. It reads dpkg's database, which takes milliseconds and spares a dpkg-query
// process.
func (a *Agent) diffPackages(want []string) ([]string, error) {
	if len(want) == 0 {
		return nil, nil
	}
	status := a.root.Read(host.DpkgStatus)
	provided := sync.OnceValue(func() map[string]bool { return dpkg.Provided(status) })
	var out []string
	for _, p := range want {
		// Docker's containerd.io is runc, too, and conflicts with the package of that name.
		if !dpkg.Has(status, p) && (!provided()[p] || !a.isThere("/usr/bin/"+p) && !a.isThere("/usr/sbin/"+p)) {
			out = append(out, p)
		}
	}
	return out, nil
}

// apt runs apt-get noninteractively. It waits for another program that installs packages: a new host does so by itself for minutes.
func (a *Agent) apt(ctx context.Context, args ...string) ([]byte, error) {
	return unlocked(ctx, a.unitWait, func() ([]byte, error) {
		return a.run.Run(ctx, nil, append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get"}, args...)...)
	})
}

// unlocked repeats a program of apt or dpkg as long as another one holds a lock, at most for longest.
func unlocked(ctx context.Context, longest time.Duration, run func() ([]byte, error)) ([]byte, error) {
	deadline := time.NewTimer(longest)
	defer deadline.Stop()
	poll := time.NewTicker(min(time.Second, longest/4+1))
	defer poll.Stop()
	for {
		out, err := run()
		if err == nil || !dpkg.Locked(err) {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, err
		case <-deadline.C:
			return out, err
		case <-poll.C:
		}
	}
}

// installPackages installs missing packages. It first passes to note all packages that the installation adds. It completes an interrupted
// installation, and fetches the package lists again only if the present ones do not suffice.
func (a *Agent) installPackages(ctx context.Context, names []string, note func(brought []string) error) error {
	if len(names) == 0 {
		return nil
	}
	what := "install the packages " + strings.Join(names, " ")
	err := tryInstall(ctx, a, names, note)
	if err != nil && ctx.Err() == nil && dpkg.CutOff(err) {
		if err := a.finishPackages(ctx); err != nil {
			return err
		}
		err = tryInstall(ctx, a, names, note)
	}
	if err == nil || fail.KindOf(err) == fail.Conflict || dpkg.Locked(err) {
		return aptError(ctx, err, what)
	}
	_, lists := a.apt(ctx, "update", "-q", "-o", "APT::Update::Error-Mode=any") // says which source can't be used; others may have the package
	if err = tryInstall(ctx, a, names, note); err != nil && lists != nil && fail.KindOf(err) != fail.Conflict {
		err = fmt.Errorf("%w; and %w", err, lists)
	}
	return aptError(ctx, err, what)
}

// stalePackages returns the packages that the last configuration named and caused to be installed, and that this one does not name.
func stalePackages(a *Agent, st *state, want []string) []string {
	var out []string
	for _, p := range st.Asked {
		ours := slices.ContainsFunc(st.Packages, func(q string) bool { name, _, _ := strings.Cut(q, ":"); return name == p })
		if ours && !slices.Contains(want, p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil
	}
	have := dpkg.Installed(a.root.Read(host.DpkgStatus))
	return slices.DeleteFunc(out, func(p string) bool { return !have[p] })
}

// dropPackages removes packages that are no longer wanted, and their dependencies that nothing else needs, and records the remaining ones in next.
func dropPackages(ctx context.Context, a *Agent, next *state, want, stale []string) error {
	if len(stale) == 0 {
		return nil
	}
	r := &reset{Agent: a, st: &state{Packages: slices.DeleteFunc(slices.Clone(next.Packages), func(p string) bool {
		name, _, _ := strings.Cut(p, ":")
		return slices.Contains(want, name)
	})}}
	if err := r.removePackages(ctx); err != nil {
		return err
	}
	have := dpkg.Installed(a.root.Read(host.DpkgStatus))
	next.Packages = slices.DeleteFunc(next.Packages, func(p string) bool { name, _, _ := strings.Cut(p, ":"); return !have[name] })
	return nil
}

func tryInstall(ctx context.Context, a *Agent, names []string, note func(brought []string) error) error {
	foreseen, replaced, err := foreseeInstallation(ctx, a, names)
	if err != nil {
		return err
	}
	if err := note(dpkg.Brought(foreseen)); err != nil {
		return err
	}
	args := installation(names)
	if len(replaced) == 0 {
		args = slices.Insert(args, 1, "--no-remove")
	}
	_, err = a.apt(ctx, args...)
	return err
}

func installation(names []string) []string {
	return slices.Concat([]string{"install", "-y", "-q", "--no-install-recommends"}, quietly, []string{"--"}, names)
}

// foreseeInstallation returns the output of apt-get --simulate, and the installed packages that the wanted ones replace. It is fail.Conflict if apt
// would remove other packages.
func foreseeInstallation(ctx context.Context, a *Agent, names []string) (foreseen string, replaced []string, err error) {
	out, err := a.apt(ctx, append([]string{"--simulate"}, installation(names)...)...)
	if err != nil {
		return "", nil, err
	}
	removed := dpkg.Removed(string(out))
	if len(removed) == 0 {
		return string(out), nil, nil
	}
	show := []string{"env", "LC_ALL=C", "apt-cache", "show", "--no-all-versions", "--"}
	lists, err := a.run.Run(ctx, nil, append(show, names...)...)
	if err != nil {
		return "", nil, err
	}
	replaced = dpkg.Replaced(removed, a.root.Read(host.DpkgStatus), string(lists))
	replaced = slices.DeleteFunc(replaced, func(p string) bool { return held(p, nil) }) // packages that clusters depend on
	removed = slices.DeleteFunc(removed, func(p string) bool { return slices.Contains(replaced, p) })
	if len(removed) > 0 {
		return "", nil, fail.New(fail.Conflict, "to install %s, apt would remove %s", strings.Join(names, " "), strings.Join(removed, " ")).
			Do("use another host; or remove these packages yourself, if nothing needs them any more: apt-get remove %s", strings.Join(removed, " "))
	}
	return string(out), replaced, nil
}

// checkRemovals returns the installed packages that the wanted ones replace. It is fail.Conflict if an installation would remove others, as far as
// the present lists tell.
func checkRemovals(ctx context.Context, a *Agent, names []string) (replaced []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	_, replaced, err = foreseeInstallation(ctx, a, names)
	if err != nil && fail.KindOf(err) != fail.Conflict {
		return nil, nil // the apply fetches the lists, and foresees it again
	}
	return replaced, err
}

// removePackages removes, with their settings, packages that the agent installed. Packages that later installed ones depend on stay.
func (r *reset) removePackages(ctx context.Context) error {
	here := func() []string {
		have := dpkg.Installed(r.root.Read(host.DpkgStatus))
		return slices.DeleteFunc(slices.Clone(r.st.Packages), func(p string) bool { name, _, _ := strings.Cut(p, ":"); return !have[name] })
	}
	ours := here()
	if len(ours) == 0 {
		return nil
	}
	_, err := unlocked(ctx, r.unitWait, func() ([]byte, error) {
		return r.run.Run(ctx, nil, append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "dpkg", "--purge", "--"}, ours...)...)
	})
	left := here()
	for _, p := range ours {
		if !slices.Contains(left, p) {
			r.did("package", p, "remove")
		}
	}
	switch {
	case err == nil || ctx.Err() == nil && len(left) > 0 && strings.Contains(err.Error(), "dependency problems"):
		return nil
	case dpkg.Locked(err):
		return fail.Wrap(fail.NotReady, err, "remove the packages %s", strings.Join(ours, " "))
	}
	return unitFailure(ctx, err, "remove the packages "+strings.Join(ours, " "))
}
