package rootfs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// Apt downloads single packages with this host's apt: its sources, its keys, its verification.
type Apt struct {
	tmp     string
	options []string
}

// Package is one of a distribution.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"` // by the archive's signed index
	file    string // as apt names it
}

// OpenApt returns this host's apt. tmp is a directory for temporary files.
func OpenApt(tmp string) (*Apt, error) {
	for _, program := range []string{"apt-get", "apt-cache", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fail.Wrap(fail.Refused, err, "this host has no %s", program).Do("do it on Debian, or bring the package from there")
		}
	}
	return &Apt{tmp: tmp, options: []string{"-o", "APT::Sandbox::User=root"}}, nil
}

// Newest returns the package that a package without content depends on first, as linux-image-amd64 does on the newest kernel. Where this
// host's lists of packages lack it, lists of our own are fetched, and the host's stay as they are.
func (a *Apt) Newest(ctx context.Context, name string) (Package, error) {
	p, err := a.newest(ctx, name)
	if err == nil || ctx.Err() != nil {
		return p, err
	}
	lists, cache := filepath.Join(a.tmp, "lists"), filepath.Join(a.tmp, "cache")
	for _, dir := range []string{filepath.Join(lists, "partial"), filepath.Join(cache, "archives/partial")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return Package{}, fail.Wrap(fail.Refused, err, "make a directory for lists of packages")
		}
	}
	a.options = append(a.options, "-o", "Dir::State::lists="+lists, "-o", "Dir::Cache="+cache)
	if _, err := a.run(ctx, "apt-get", "update", "-qq"); err != nil {
		return Package{}, fail.Wrap(fail.KindOf(err), err, "fetch lists of packages").Do("check that this host reaches its mirror: apt-get update")
	}
	return a.newest(ctx, name)
}

var (
	dependsLine = regexp.MustCompile(`(?m)^\s+\|?Depends: ([a-z0-9][a-z0-9.+-]+)$`)
	uriLine     = regexp.MustCompile(`(?m)^'[^']+' (([^_ ]+)_([^_ ]+)_[^_ ]+\.deb) \d+ SHA256:([0-9a-f]{64})$`)
)

func (a *Apt) newest(ctx context.Context, name string) (Package, error) {
	out, err := a.run(ctx, "apt-cache", "depends", name)
	if err != nil {
		return Package{}, err
	}
	m := dependsLine.FindStringSubmatch(out)
	if m == nil {
		return Package{}, fail.New(fail.Refused, "this host's mirror has no package %s", name).Do("do it on Debian, or bring the kernel's package from there")
	}
	if out, err = a.run(ctx, "apt-get", "download", "--print-uris", m[1]); err != nil {
		return Package{}, err
	}
	u := uriLine.FindStringSubmatch(out)
	if u == nil {
		return Package{}, fail.New(fail.Internal, "apt-get says %q, a package with its SHA-256 was expected", strings.TrimSpace(out))
	}
	return Package{Name: u[2], Version: strings.ReplaceAll(u[3], "%3a", ":"), SHA256: u[4], file: u[1]}, nil
}

// Download returns the package's file in the temporary directory.
func (a *Apt) Download(ctx context.Context, p Package) (string, error) {
	if _, err := a.run(ctx, "apt-get", "download", "-qq", p.Name+"="+p.Version); err != nil {
		return "", fail.Wrap(fail.KindOf(err), err, "download %s", p.Name).Do("check the network; if the package is gone from the archive, apt-get update helps")
	}
	file := filepath.Join(a.tmp, p.file)
	sum, err := FileDigest(file)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "read the package that was downloaded")
	}
	if sum != p.SHA256 {
		return "", fail.New(fail.Refused, "the package %s has the digest %s, the archive's index says %s", p.file, sum, p.SHA256)
	}
	return file, nil
}

// run runs a program of apt in the temporary directory, which receives downloads.
func (a *Apt) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, append(append([]string{}, a.options...), args...)...)
	cmd.Env, cmd.Dir = tool.Env(), a.tmp
	var out strings.Builder
	cmd.Stdout = &out
	err := tool.Do(ctx, cmd)
	return out.String(), err
}
