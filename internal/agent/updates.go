package agent

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/naupegos/naupegos/internal/agent/bootargs"
	"github.com/naupegos/naupegos/internal/agent/dpkg"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// fromBundle lists packages whose programs come from the bundle if the bundle has them: another version would be another release.
var fromBundle = []string{
	"kubelet", "kubeadm", "kubectl", "kubernetes-cni", "cri-tools", "containerd", "containerd.io", "runc", "cri-o", "docker.io", "docker-ce", "etcd", "etcd-server", "etcd-client",
}

// quietly makes dpkg keep edited files without asking.
var quietly = []string{"-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold", "-o", "APT::Keep-Downloaded-Packages=false"}

// rebootFile exists while a package requests a reboot.
const rebootFile = "/run/reboot-required"

// Updates returns the packages with newer versions, according to the lists that it fetches first, and whether the machine must reboot. Packages in
// hold, and those from bundles, stay unchanged. It installs nothing and never removes an installed package.
func (a *Agent) Updates(ctx context.Context, hold []string) (machine.Updates, error) {
	unlock, err := a.lock(ctx)
	if err != nil {
		return machine.Updates{}, err
	}
	defer unlock()
	if err := a.fetchLists(ctx); err != nil {
		return machine.Updates{}, err
	}
	return a.lookForUpdates(ctx, hold)
}

// RebootReasons returns why the machine must reboot; nothing if it need not.
func (a *Agent) RebootReasons() machine.Updates {
	return machine.Updates{Reboot: a.rebootReasons(), Life: a.life(nil)}
}

func (a *Agent) fetchLists(ctx context.Context) error {
	_, err := a.apt(ctx, "update", "-q", "-o", "APT::Update::Error-Mode=any") // an unavailable list is an error
	return aptError(ctx, err, "fetch the lists of packages")
}

func (a *Agent) lookForUpdates(ctx context.Context, hold []string) (machine.Updates, error) {
	u := machine.Updates{Reboot: a.rebootReasons(), Life: a.life(nil)}
	foreseen, err := a.apt(ctx, "--simulate", "-q", "upgrade", "--with-new-pkgs", "--no-install-recommends")
	switch {
	case err == nil:
	case ctx.Err() == nil && dpkg.CutOff(err):
		u.Unfinished = true
		return u, nil
	default:
		return machine.Updates{}, aptError(ctx, err, "look for newer packages")
	}
	for _, p := range foreseenPackages(string(foreseen)) {
		if held(p.Name, hold) {
			u.Held = append(u.Held, p.Name)
			continue
		}
		u.Packages = append(u.Packages, p)
	}
	// A new package comes only with others: omit it if all of those are held.
	if !slices.ContainsFunc(u.Packages, func(p machine.PackageUpdate) bool { return p.From != "" }) {
		u.Packages = nil
	}
	return u, nil
}

func held(name string, hold []string) bool {
	bare, _, _ := strings.Cut(name, ":")
	return slices.Contains(fromBundle, bare) || slices.Contains(hold, bare) || slices.Contains(hold, name)
}

// foreseenPackages parses the output of apt-get --simulate: "Inst NAME [FROM] (TO …)", without FROM for a new package.
func foreseenPackages(text string) (all []machine.PackageUpdate) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 3 || f[0] != "Inst" {
			continue
		}
		p := machine.PackageUpdate{Name: f[1]}
		if from, ok := strings.CutPrefix(f[2], "["); ok && len(f) > 3 {
			p.From = strings.TrimSuffix(from, "]")
			f = f[1:]
		}
		p.To = strings.TrimPrefix(f[2], "(")
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b machine.PackageUpdate) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Update brings packages to exactly the versions that want names, and returns the updates that remain. Packages that were installed only as
// dependencies stay marked as such. An interrupted update is finished first. It returns fail.Conflict if the mirror has changed since want was made.
func (a *Agent) Update(ctx context.Context, want machine.Updates) (machine.Updates, error) {
	unlock, err := a.lock(ctx)
	if err != nil {
		return machine.Updates{}, err
	}
	defer unlock()
	if err := a.finishPackages(ctx); err != nil {
		return machine.Updates{}, err
	}
	var names, install []string
	for _, p := range want.Packages {
		if p.From != "" { // the new packages come with these
			names, install = append(names, p.Name), append(install, p.Name+"="+p.To)
		}
	}
	if len(install) == 0 {
		return a.lookForUpdates(ctx, want.Held)
	}
	args := slices.Concat([]string{"install", "-y", "-q", "--no-install-recommends", "--no-remove", "--only-upgrade"}, quietly, []string{"--"}, install)
	if err := a.foresee(ctx, args, want); err != nil {
		return machine.Updates{}, err
	}
	auto, err := a.run.Run(ctx, nil, append([]string{"apt-mark", "showauto"}, names...)...)
	if err != nil {
		return machine.Updates{}, aptError(ctx, err, "see which packages came for others")
	}
	if _, err := a.apt(ctx, args...); err != nil {
		return machine.Updates{}, aptError(ctx, err, "bring packages up to date")
	}
	if f := strings.Fields(string(auto)); len(f) > 0 {
		if _, err := a.run.Run(ctx, nil, append([]string{"apt-mark", "auto"}, f...)...); err != nil {
			return machine.Updates{}, aptError(ctx, err, "mark packages that came for others")
		}
	}
	return a.lookForUpdates(ctx, want.Held)
}

// finishPackages completes an interrupted installation: it configures unpacked packages and installs their dependencies.
func (a *Agent) finishPackages(ctx context.Context) error {
	_, err := unlocked(ctx, a.unitWait, func() ([]byte, error) {
		return a.run.Run(ctx, nil, "env", "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C", "dpkg", "--force-confdef", "--force-confold", "--configure", "-a")
	})
	if err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "dependency problems") {
		_, err = a.apt(ctx, slices.Concat([]string{"install", "--fix-broken", "-y", "-q", "--no-install-recommends", "--no-remove"}, quietly)...)
	}
	return aptError(ctx, err, "finish an installation that was cut off")
}

// foresee refuses an installation that would do more than requested.
func (a *Agent) foresee(ctx context.Context, args []string, want machine.Updates) error {
	foreseen, err := a.apt(ctx, append([]string{"--simulate"}, args...)...)
	if err != nil && ctx.Err() == nil && strings.Contains(err.Error(), "was not found") {
		return fail.Wrap(fail.Conflict, err, "the mirror has other versions than were shown").Do("run the same command again: it looks for new versions")
	}
	if err != nil {
		return aptError(ctx, err, "foresee what newer packages bring")
	}
	for _, p := range foreseenPackages(string(foreseen)) {
		if held(p.Name, want.Held) {
			return fail.New(fail.Refused, "the updates need another %s, which is held", p.Name).Do("also hold the packages that need it: spec.updates.os.hold")
		}
	}
	return nil
}

// aptError describes a failure of apt-get. If another apt-get is running, it returns fail.NotReady.
func aptError(ctx context.Context, err error, what string) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return interrupted(ctx.Err())
	case fail.KindOf(err) != fail.Internal: // already classified
		return err
	case dpkg.Locked(err):
		return fail.Wrap(fail.NotReady, err, "%s", what).Do("something else installs packages: unattended-upgrades, perhaps")
	}
	return fail.Wrap(fail.Refused, err, "%s", what).Do("the machine must reach its Debian or Ubuntu mirror, or have the packages installed beforehand; apt-get there has details")
}

// rebootReasons returns why the machine must reboot: its packages request it, kernel arguments have changed, or a newer kernel is installed.
// Containers use their host's kernel.
func (a *Agent) rebootReasons() (why []string) {
	if _, err := os.Stat(a.path(rebootFile)); err == nil {
		reason := "packages require it"
		if by := strings.Fields(a.root.Read(rebootFile + ".pkgs")); len(by) > 0 {
			slices.Sort(by)
			reason += ": " + strings.Join(slices.Compact(by), ", ")
		}
		why = append(why, reason)
	}
	if a.root.Read("/run/systemd/container") != "" {
		return why
	}
	if st, err := a.loadState(); err == nil {
		awaits, _ := bootargs.Awaits(a.root, st.Kernel)
		why = append(why, awaits...)
	}
	runs := a.root.Read("/proc/sys/kernel/osrelease")
	if newest := newestKernel(a.root, runs); newest != "" {
		why = append(why, "kernel "+newest+" is newer than "+runs+", which runs")
	}
	return why
}

// newestKernel returns the newest bootable kernel of the same flavour as the running one, or "" if the running one is the newest.
func newestKernel(root host.Root, runs string) (newest string) {
	version, flavour := kernelVersion(runs)
	images, err := filepath.Glob(root.Path("/boot/vmlinuz-*"))
	if err != nil || runs == "" {
		return ""
	}
	for _, image := range images {
		name := strings.TrimPrefix(filepath.Base(image), "vmlinuz-")
		if v, f := kernelVersion(name); f == flavour && slices.Compare(v, version) > 0 {
			newest, version = name, v
		}
	}
	return newest
}

var kernelNumbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]+([.+~-][0-9]+)*`) })

// kernelVersion splits a kernel's release, 6.1.0-18-cloud-amd64, into its numbers and its flavour.
func kernelVersion(release string) (numbers []int, flavour string) {
	version := kernelNumbers().FindString(release)
	for _, digits := range strings.FieldsFunc(version, func(r rune) bool { return r < '0' || r > '9' }) {
		n, _ := strconv.Atoi(digits) // digits
		numbers = append(numbers, n)
	}
	return numbers, release[len(version):]
}
