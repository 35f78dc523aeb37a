package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/agent/bootargs"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// authoritiesDir holds the CA certificates that are trusted in addition to the system's own.
const authoritiesDir = "/usr/local/share/ca-certificates/"

// authorityLinks has links to the trusted CA certificates. update-ca-certificates keeps links to a deleted certificate unless others change too.
const authorityLinks = "/etc/ssl/certs"

// authoritiesProgram is from the package ca-certificates.
const authoritiesProgram = "/usr/sbin/update-ca-certificates"

// refresh is a command that makes the system notice changed files.
type refresh struct {
	dir     string   // a change of a file in it requires the command
	name    string   // name in reports
	command []string // empty: restart the unit of that name if it runs
	needs   string   // program that notices the change, without which the command is unnecessary; empty: none
}

func refreshes() []refresh {
	return []refresh{
		{dir: authoritiesDir, name: "update-ca-certificates", command: []string{"update-ca-certificates"}},
		{dir: "/etc/systemd/resolved.conf.d/", name: "systemd-resolved.service"},
		{dir: "/etc/NetworkManager/conf.d/", name: "NetworkManager.service"},
		{dir: "/etc/systemd/timesyncd.conf.d/", name: "systemd-timesyncd.service"},
		{dir: "/etc/chrony/", name: "chrony.service"},
		{dir: "/etc/udev/rules.d/", name: "udevadm", command: []string{"udevadm", "control", "--reload"}},
		{dir: bootargs.File, name: "update-grub", command: []string{"update-grub"}, needs: host.UpdateGRUB},
	}
}

// needed returns the first changed path that requires the command.
func (r refresh) needed(changed map[string]bool) string {
	first := ""
	for p := range changed {
		if strings.HasPrefix(p, r.dir) && (first == "" || p < first) {
			first = p
		}
	}
	return first
}

// refreshChanges lists the commands for reports.
func refreshChanges(changed map[string]bool) []machine.Change {
	var out []machine.Change
	for _, r := range refreshes() {
		if p := r.needed(changed); p != "" {
			out = append(out, machine.Change{Kind: "command", Name: r.name, Action: "run", Why: p + " changed"})
		}
	}
	return out
}

// takeNotice runs the commands that changed files require.
func takeNotice(ctx context.Context, a *Agent, changed map[string]bool) error {
	for _, r := range refreshes() {
		p := r.needed(changed)
		if p == "" {
			continue
		}
		if r.dir == authoritiesDir {
			if err := dropAuthorityLinks(a, changed); err != nil {
				return err
			}
		}
		if err := r.run(ctx, a); err != nil {
			return fail.Wrap(kindOr(err, fail.Internal), err, "make the system reread %s", p).At(r.name)
		}
	}
	return nil
}

// dropAuthorityLinks removes the links to deleted CA certificates, and the links to those links that openssl rehash has made.
func dropAuthorityLinks(a *Agent, changed map[string]bool) error {
	entries, err := os.ReadDir(a.path(authorityLinks))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fileError(err, "list", authorityLinks)
	}
	for p := range changed {
		if !strings.HasPrefix(p, authoritiesDir) || a.isThere(p) {
			continue
		}
		link := strings.TrimSuffix(path.Base(p), ".crt") + ".pem"
		for _, e := range entries {
			at := path.Join(authorityLinks, e.Name())
			target, err := os.Readlink(a.path(at))
			if err != nil || target != p && target != link {
				continue // no link, or one to another certificate
			}
			if err := removePath(a.path(at), at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r refresh) run(ctx context.Context, a *Agent) error {
	if r.needs != "" && !a.isThere(r.needs) {
		return nil
	}
	if len(r.command) == 0 {
		states, err := a.unitStates(ctx, []string{r.name})
		if err != nil || !states[r.name].running() { // not installed, or reads its files when it starts
			return err
		}
		_, err = a.systemctl(ctx, "restart", "--", r.name)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.unitWait)
	defer cancel()
	_, err := a.run.Run(ctx, nil, r.command...)
	return err
}

// early reports whether the installation of packages may need a file: package sources, their keys, the proxy, CA certificates, and name servers.
func early(o *op) bool {
	return slices.ContainsFunc([]string{"/etc/apt/", authoritiesDir, "/etc/resolv.conf", "/etc/systemd/resolved.conf.d/", "/etc/NetworkManager/conf.d/"}, func(at string) bool {
		return strings.HasPrefix(o.path, at)
	})
}

// beforePackages places the files that the installation of packages needs, and updates the package lists if the sources change.
func beforePackages(ctx context.Context, a *Agent, d *diff) error {
	if len(d.packages) == 0 {
		return nil
	}
	var ops []*op
	for _, o := range d.files {
		if early(o) {
			ops = append(ops, o)
		}
	}
	if len(ops) == 0 {
		return nil
	}
	if err := a.makeDirectories(d.directories); err != nil {
		return err
	}
	if err := a.placeFiles(ops); err != nil {
		return err
	}
	placed := map[string]bool{}
	for _, o := range ops { // a package may bring the program, which then reads the existing files
		placed[o.path] = !strings.HasPrefix(o.path, authoritiesDir) || a.isThere(authoritiesProgram)
	}
	maps.DeleteFunc(placed, func(_ string, notice bool) bool { return !notice })
	if err := takeNotice(ctx, a, placed); err != nil {
		return err
	}
	for _, o := range ops {
		if !strings.HasPrefix(o.path, "/etc/apt/") {
			continue
		}
		if _, err := a.apt(ctx, "update", "-q"); err != nil {
			return aptError(ctx, err, "fetch the lists of packages")
		}
		return nil
	}
	return nil
}
