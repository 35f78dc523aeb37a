package agent

import (
	"context"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
)

// diffPackages returns the wanted packages that are not installed. It reads dpkg's database, which takes milliseconds and spares a dpkg-query
// process.
func (a *Agent) diffPackages(want []string) ([]string, error) {
	if len(want) == 0 {
		return nil, nil
	}
	have := installedPackages(a.root.Read(host.DpkgStatus))
	var out []string
	for _, p := range want {
		if !have[p] {
			out = append(out, p)
		}
	}
	return out, nil
}

// installedPackages reads the stanzas of dpkg's database.
func installedPackages(status string) map[string]bool {
	have := map[string]bool{}
	name := ""
	for line := range strings.Lines(status) {
		line = strings.TrimRight(line, "\n")
		if v, ok := strings.CutPrefix(line, "Package: "); ok {
			name = v
		}
		if line == "Status: install ok installed" || line == "Status: hold ok installed" {
			have[name] = true
		}
	}
	return have
}

// apt runs apt-get noninteractively.
func (a *Agent) apt(ctx context.Context, args ...string) ([]byte, error) {
	return a.run.Run(ctx, nil, append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "apt-get"}, args...)...)
}

// installPackages installs missing packages. It first passes to note all packages that the installation adds. Package lists are fetched again only if
// the present lists do not suffice.
func (a *Agent) installPackages(ctx context.Context, names []string, note func(brought []string) error) error {
	if len(names) == 0 {
		return nil
	}
	err := a.tryInstall(ctx, names, note)
	if err == nil {
		return nil
	}
	if _, err = a.apt(ctx, "update", "-q"); err == nil {
		err = a.tryInstall(ctx, names, note)
	}
	return aptFailure(ctx, err, "install the packages "+strings.Join(names, " "))
}

// aptFailure wraps an error of apt; nil stays nil.
func aptFailure(ctx context.Context, err error, what string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return interrupted(ctx.Err())
	}
	return fail.Wrap(fail.Refused, err, "%s", what).Do("the machine must reach a Debian or Ubuntu mirror, or have the packages installed beforehand")
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
	have := installedPackages(a.root.Read(host.DpkgStatus))
	return slices.DeleteFunc(out, func(p string) bool { return !have[p] })
}

// dropPackages removes packages that are no longer wanted, and their dependencies that nothing else needs, and records in next what is left.
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
	have := installedPackages(a.root.Read(host.DpkgStatus))
	next.Packages = slices.DeleteFunc(next.Packages, func(p string) bool { name, _, _ := strings.Cut(p, ":"); return !have[name] })
	return nil
}

func (a *Agent) tryInstall(ctx context.Context, names []string, note func(brought []string) error) error {
	install := append([]string{"install", "-y", "-q", "--no-install-recommends", "--"}, names...)
	foreseen, err := a.apt(ctx, append([]string{"--simulate"}, install...)...)
	if err != nil {
		return err
	}
	if err := note(broughtPackages(string(foreseen))); err != nil {
		return err
	}
	_, err = a.apt(ctx, install...)
	return err
}

// broughtPackages returns the packages that are newly installed according to the output of apt-get --simulate: "Inst NAME (VERSION …)". A package
// that is upgraded has its present version in brackets before the parenthesis.
func broughtPackages(foreseen string) (names []string) {
	for line := range strings.Lines(foreseen) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == "Inst" && strings.HasPrefix(f[2], "(") {
			names = append(names, f[1])
		}
	}
	return names
}

// removePackages removes, with their settings, packages that the agent installed. Packages that later installed ones depend on stay.
func (r *reset) removePackages(ctx context.Context) error {
	here := func() []string {
		have := installedPackages(r.root.Read(host.DpkgStatus))
		return slices.DeleteFunc(slices.Clone(r.st.Packages), func(p string) bool { name, _, _ := strings.Cut(p, ":"); return !have[name] })
	}
	ours := here()
	if len(ours) == 0 {
		return nil
	}
	_, err := r.run.Run(ctx, nil, append([]string{"env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "dpkg", "--purge", "--"}, ours...)...)
	left := here()
	for _, p := range ours {
		if !slices.Contains(left, p) {
			r.did("package", p, "remove")
		}
	}
	switch {
	case err == nil || ctx.Err() == nil && len(left) > 0 && strings.Contains(err.Error(), "dependency problems"):
		return nil
	case strings.Contains(err.Error(), "lock"): // another apt holds the lock; it ends
		return fail.Wrap(fail.NotReady, err, "remove the packages %s", strings.Join(ours, " "))
	}
	return unitFailure(ctx, err, "remove the packages "+strings.Join(ours, " "))
}
