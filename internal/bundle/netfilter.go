package bundle

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/bundle/content"
	"github.com/naupegos/naupegos/internal/fail"
)

// debianParts contains the files that images take from Debian packages.
type debianParts struct {
	netfilter   []content.File // nft, iptables (nft variant), their libraries and loader
	storage     []content.File // programs that create, mount and grow file systems, their libraries and loader
	shell       []content.File // a static shell with the programs that scripts call
	authorities []byte         // the certificates of public authorities, PEM
	used        []deb          // the packages from which files were taken
}

// authoritiesPath is where Go programs look for the certificates of public authorities.
const authoritiesPath = "/etc/ssl/certs/ca-certificates.crt"

// fetchDebian resolves and downloads the packages.
func fetchDebian(ctx context.Context, d *debian, w wanted, r *reporter) ([]deb, []*cacheEntry, error) {
	t := r.begin("debian", PhaseDownload, 0)
	debs, err := d.resolve(ctx, w)
	if err != nil {
		return nil, nil, fail.Wrap(fail.KindOf(err), err, "resolve Debian packages").Do("run `apt-get download %s` to see the cause", slices.Concat(w.withLibraries, w.alone)[0])
	}
	t.ev.Total = int64(len(debs))
	entries, err := d.fetch(ctx, debs)
	if err != nil {
		return nil, nil, err
	}
	t.finish(false)
	return debs, entries, nil
}

// unpackDebian unpacks packages into dir and selects the files that images need by the function take. The result refers to files in dir, which must
// outlive it.
func unpackDebian(ctx context.Context, d *debian, debs []deb, entries []*cacheEntry, dir string, take func(*debianParts, content.Tree) error) (*debianParts, error) {
	p := &debianParts{}
	var tr content.Tree
	for i, pkg := range debs {
		root := filepath.Join(dir, pkg.Name)
		if err := os.MkdirAll(root, 0o755); err != nil {
			return nil, ioError(err, "unpack "+pkg.Name, root)
		}
		if err := d.unpack(ctx, pkg, entries[i], root); err != nil {
			return nil, err
		}
		tr.Roots = append(tr.Roots, root)
	}
	if err := errors.Join(take(p, tr), p.takeAuthorities(tr)); err != nil {
		return nil, err
	}
	for i, pkg := range debs {
		if p.takes(tr.Roots[i]) || pkg.Name == "ca-certificates" {
			p.used = append(p.used, pkg)
		}
	}
	return p, nil
}

func (p *debianParts) takes(root string) bool {
	for _, f := range slices.Concat(p.netfilter, p.storage, p.shell) {
		if strings.HasPrefix(f.Source, root+"/") {
			return true
		}
	}
	return false
}

// takeNetfilter selects the files of nft and of iptables' nft variant only: the legacy one needs kernel interfaces that are going away.
func (p *debianParts) takeNetfilter(tr content.Tree) error {
	extensions, err := tr.Glob("/usr/lib/*-linux-gnu/xtables/*.so")
	if err != nil {
		return err
	}
	if len(extensions) == 0 {
		return fail.New(fail.Internal, "the iptables package has no extensions where they are expected")
	}
	const multi = "/usr/sbin/xtables-nft-multi"
	if p.netfilter, err = tr.Closure(append(extensions, "/usr/sbin/nft", multi)...); err != nil {
		return err
	}
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore"} {
		p.netfilter = append(p.netfilter, content.File{Path: "/usr/sbin/" + name, Link: filepath.Base(multi)})
	}
	return nil
}

func (p *debianParts) takeAuthorities(tr content.Tree) error {
	certs, err := tr.Glob("/usr/share/ca-certificates/mozilla/*.crt")
	if err != nil {
		return err
	}
	if len(certs) == 0 {
		return fail.New(fail.Internal, "the ca-certificates package has no certificates where they are expected")
	}
	for _, c := range certs {
		file, err := tr.Find(c)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(file)
		if err != nil {
			return ioError(err, "read certificate", file)
		}
		p.authorities = append(p.authorities, data...)
	}
	return nil
}
