package bundle

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// debian fetches Debian packages with the machine's own apt: its sources, its keys, its verification.
type debian struct {
	lib     *Library
	apt     string   // apt-get
	cache   string   // apt-cache
	dpkg    string   // dpkg-deb
	options []string // for apt, such as the use of our own package lists
	distro  string   // "debian", "ubuntu"
	close   func()   // removes our own package lists
}

// deb is one package.
type deb struct {
	Name    string
	Version string
	File    string // as apt names it
	SHA256  string // by the archive's signed index
	Distro  string // "debian", "ubuntu"
}

func newDebian(l *Library) (*debian, error) {
	d := &debian{lib: l, options: []string{"-o", "APT::Sandbox::User=root"}, distro: distribution(), close: func() {}}
	for _, p := range []struct {
		to   *string
		name string
	}{{&d.apt, "apt-get"}, {&d.cache, "apt-cache"}, {&d.dpkg, "dpkg-deb"}} {
		path, err := exec.LookPath(p.name)
		if err != nil {
			return nil, fail.Wrap(fail.Refused, err, "find %s", p.name).
				Do("a bundle takes nftables and iptables from Debian packages: build it on Debian or Ubuntu, or bring one from there with naupegos bundle export and import")
		}
		*p.to = path
	}
	return d, nil
}

// wanted names packages to take without and with the libraries on which they depend.
type wanted struct{ alone, withLibraries []string }

// resolve returns the packages as apt would install them now.
func (d *debian) resolve(ctx context.Context, w wanted) ([]deb, error) {
	debs, err := d.tryResolve(ctx, w)
	if err == nil || ctx.Err() != nil {
		return debs, err
	}
	// The machine's package lists may be missing or old: fetch our own, and leave the machine's unchanged.
	if err := d.ownLists(ctx); err != nil {
		return nil, err
	}
	return d.tryResolve(ctx, w)
}

// ownLists fetches package lists into a temporary directory of the library, which later calls of apt use, too.
func (d *debian) ownLists(ctx context.Context) error {
	dir, remove, err := d.lib.workDir("apt")
	if err != nil {
		return err
	}
	d.close = remove
	for _, sub := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return ioError(err, "make directory for package lists", dir)
		}
	}
	d.options = append(d.options, "-o", "Dir::State::lists="+filepath.Join(dir, "lists"), "-o", "Dir::Cache="+filepath.Join(dir, "cache"))
	if _, err := d.run(ctx, dir, d.apt, "update"); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "fetch package lists").Do("check the network and /etc/apt/sources.list")
	}
	return nil
}

func (d *debian) tryResolve(ctx context.Context, w wanted) ([]deb, error) {
	want := map[string]bool{}
	for _, n := range slices.Concat(w.alone, w.withLibraries) {
		want[n] = true
	}
	if len(w.withLibraries) > 0 {
		if err := d.addLibraries(ctx, w.withLibraries, want); err != nil {
			return nil, err
		}
	}
	out, err := d.run(ctx, d.lib.tmpDir(), d.apt, append([]string{"download", "--print-uris"}, sortedKeys(want)...)...)
	if err != nil {
		return nil, err
	}
	debs, err := parseURIs(out)
	for i := range debs {
		debs[i].Distro = d.distro
	}
	return debs, err
}

// addLibraries adds the names of the libraries on which packages depend.
func (d *debian) addLibraries(ctx context.Context, packages []string, want map[string]bool) error {
	args := append([]string{"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"}, packages...)
	out, err := d.run(ctx, d.lib.tmpDir(), d.cache, args...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(out) {
		name := strings.TrimSpace(line)
		if line[0] != ' ' && line[0] != '<' && strings.HasPrefix(name, "lib") && !strings.Contains(name, ":") { // with a colon: of another architecture
			want[name] = true
		}
	}
	return nil
}

var uriLine = regexp.MustCompile(`^'[^']+' (([^_ ]+)_([^_ ]+)_[^_ ]+\.deb) \d+ SHA256:([0-9a-f]{64})$`)

// parseURIs reads `apt-get download --print-uris`: 'URL' name_version_arch.deb size SHA256:hex.
func parseURIs(out string) ([]deb, error) {
	var debs []deb
	for line := range strings.Lines(out) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		m := uriLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fail.New(fail.Internal, "apt-get says %q, a package with its SHA256 was expected", line)
		}
		debs = append(debs, deb{Name: m[2], Version: strings.ReplaceAll(m[3], "%3a", ":"), File: m[1], SHA256: m[4]})
	}
	sort.Slice(debs, func(i, j int) bool { return debs[i].Name < debs[j].Name })
	return debs, nil
}

// fetch returns the cached packages in the order of debs. It downloads missing ones with a single call of apt.
func (d *debian) fetch(ctx context.Context, debs []deb) ([]*cacheEntry, error) {
	entries := make([]*cacheEntry, len(debs))
	args := []string{"download"}
	for i, p := range debs {
		e, err := d.lib.cached(ctx, "deb-"+p.Name, p.SHA256)
		if err != nil {
			return nil, err
		}
		if entries[i] = e; e == nil {
			args = append(args, p.Name+"="+p.Version)
		}
	}
	if len(args) == 1 {
		return entries, nil
	}
	dir, remove, err := d.lib.workDir("deb")
	if err != nil {
		return nil, err
	}
	defer remove()
	if _, err := d.run(ctx, dir, d.apt, args...); err != nil {
		return nil, fail.Wrap(fail.KindOf(err), err, "download Debian packages").Do("check the network; if a package is gone from the archive, apt-get update helps")
	}
	for i, p := range debs {
		if entries[i] == nil {
			if entries[i], err = d.keep(ctx, p, dir); err != nil {
				return nil, err
			}
		}
	}
	return entries, nil
}

// keep verifies a downloaded package against the archive's index and moves it into the cache.
func (d *debian) keep(ctx context.Context, p deb, dir string) (*cacheEntry, error) {
	file := filepath.Join(dir, p.File)
	got, err := fileDigest(ctx, file)
	if err != nil {
		return nil, ioError(err, "read Debian package", file)
	}
	if got != "sha256:"+p.SHA256 {
		return nil, fail.New(fail.Refused, "Debian package %s has digest %s, the archive's index says %s", p.File, got, p.SHA256).Do("try again; do not use the downloaded files")
	}
	own := filepath.Join(dir, p.Name+".d")
	if err := os.Mkdir(own, 0o755); err != nil {
		return nil, ioError(err, "keep Debian package", own)
	}
	if err := os.Rename(file, filepath.Join(own, p.File)); err != nil {
		return nil, ioError(err, "keep Debian package", own)
	}
	return d.lib.store(ctx, "deb-"+p.Name, p.SHA256, own, []string{p.File})
}

// unpack unpacks a package into root.
func (d *debian) unpack(ctx context.Context, p deb, e *cacheEntry, root string) error {
	if _, err := d.run(ctx, root, d.dpkg, "-x", e.path(p.File), root); err != nil {
		return fail.Wrap(fail.KindOf(err), err, "unpack %s", p.File)
	}
	return nil
}

func (d *debian) run(ctx context.Context, dir, program string, args ...string) (string, error) {
	if program != d.dpkg {
		args = append(append([]string{}, d.options...), args...)
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	var out strings.Builder
	cmd.Stdout = &out
	err := runQuietly(ctx, cmd, nil)
	return out.String(), err
}

// source returns the package's origin for the manifest.
func (p deb) source() string { return fmt.Sprintf("%s package %s", p.Distro, p.File) }

// distribution returns the ID of the machine's distribution.
func distribution() string {
	data, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "debian"
	}
	for line := range strings.Lines(string(data)) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "ID="); ok {
			return strings.Trim(id, `"'`)
		}
	}
	return "debian"
}
