package boot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Import is what taking over a matchbox's data directory comes to: files, named below the directory as groups/a.json.
type Import struct {
	Groups   int      `json:"groups"`
	Profiles int      `json:"profiles"`
	New      []string `json:"new"`
	Changed  []string `json:"changed"` // there already, with other content
	Same     int      `json:"same"`
	Problems []string `json:"problems"` // what machines will get no answer from; matchbox doesn't answer them either

	from, assets, to string
}

// PlanImport looks what has to be copied from a matchbox's data directory, and its directory of assets (empty: assets in the data
// directory), to a directory of Naupegos'. Nothing is changed.
func PlanImport(from, assets, to string) (*Import, error) {
	p := &Import{New: []string{}, Changed: []string{}, Problems: []string{}, from: from, assets: assets, to: to}
	cfg, problems, err := ReadDir(from)
	if err != nil {
		return nil, err
	}
	p.Groups, p.Profiles = len(cfg.Groups), len(cfg.Profiles)
	if p.Groups+p.Profiles == 0 {
		return nil, fail.New(fail.Invalid, "there is neither a group nor a profile").At(from).Do("name the directory that matchbox was started with as -data-path")
	}
	for _, problem := range append(problems, NewCatalog().Replace(cfg)...) {
		p.Problems = append(p.Problems, problem.Error())
	}
	if p.assets == "" {
		p.assets = filepath.Join(from, "assets")
	} else if _, err := os.Stat(assets); err != nil {
		return nil, fail.Wrap(fail.NotFound, err, "read the assets")
	}
	// What is named lies there before what names it: templates and assets, then profiles, then groups.
	for _, sub := range []string{"assets", string(genericKind), string(cloudKind), string(ignitionKind), "profiles", "groups"} {
		if err := p.compare(sub); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "compare what is to be imported").At(from)
		}
	}
	return p, nil
}

// source returns where a file is copied from.
func (p *Import) source(name string) string {
	if below, ok := strings.CutPrefix(name, "assets"); ok {
		return filepath.Join(p.assets, below)
	}
	return filepath.Join(p.from, name)
}

// compare looks which files of a directory are new, and which differ.
func (p *Import) compare(sub string) error {
	var failed error
	err := eachFile(p.source(sub), sub, func(name, path string) {
		name = sub + "/" + name
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			p.Problems = append(p.Problems, name+": a link to a directory: what lies there is not imported")
			return
		}
		same, err := sameContent(path, filepath.Join(p.to, name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			p.New = append(p.New, name)
		case err != nil:
			failed = errors.Join(failed, err)
		case same:
			p.Same++
		default:
			p.Changed = append(p.Changed, name)
		}
	})
	return errors.Join(err, failed)
}

// sameContent compares two files. The error is fs.ErrNotExist where there is no second one.
func sameContent(a, b string) (bool, error) {
	from, err := os.Stat(a)
	if err != nil {
		return false, fmt.Errorf("it can't be read: %v", err) //nolint:errorlint // that a is missing is no fs.ErrNotExist of b
	}
	to, err := os.Stat(b)
	if err != nil || from.Size() != to.Size() {
		return false, err
	}
	one, err := digest(a)
	if err != nil {
		return false, err
	}
	other, err := digest(b)
	return one == other, err
}

func digest(path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// Run copies the files that are new, and with replace those that differ. A server that runs on the directory takes each up by itself.
// What was copied stays where ctx ends; the same import goes on from there.
func (p *Import) Run(ctx context.Context, replace bool) error {
	if len(p.Changed) > 0 && !replace {
		return fail.New(fail.Conflict, "there are other files of the same names: %s", strings.Join(p.Changed[:min(len(p.Changed), 5)], ", ")).At(p.to).
			Do("look at them, then say --replace")
	}
	for _, name := range append(p.Changed, p.New...) {
		if err := ctx.Err(); err != nil {
			return fail.Wrap(fail.Interrupted, err, "import a matchbox's directory").Do("the same command continues")
		}
		if err := p.copy(name); err != nil {
			return fail.Wrap(fail.Internal, err, "copy %s", name).At(p.to)
		}
	}
	return nil
}

// copy copies a file, whole or not at all.
func (p *Import) copy(name string) error {
	to := filepath.Join(p.to, name)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(p.source(name))
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(p.to, ".import-*") // not where it is to lie: a server may be reading there
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Chmod(0o644), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}
