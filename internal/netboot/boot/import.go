package boot

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/within"
)

// Import is the plan of importing a matchbox data directory. File names are relative to the directory, such as groups/a.json.
type Import struct {
	Groups   int      `json:"groups"`
	Profiles int      `json:"profiles"`
	New      []string `json:"new"`     // an empty directory ends with a slash
	Changed  []string `json:"changed"` // existing files with other content
	Same     int      `json:"same"`
	Problems []string `json:"problems"` // parts that machines will get no answer from; matchbox does not answer them either

	from, assets, to string
	aged             []string // equal files with different modification times
}

// PlanImport compares a matchbox data directory and its directory of assets (empty: assets in the data directory) with a directory of Naupegos.
// It changes nothing.
func PlanImport(from, assets, to string) (*Import, error) {
	p := &Import{New: []string{}, Changed: []string{}, Problems: []string{}, from: from, assets: assets, to: to}
	cfg, problems, err := ReadDir(from)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the directory to import")
	}
	p.Groups, p.Profiles = len(cfg.Groups), len(cfg.Profiles)
	if p.Groups+p.Profiles == 0 {
		return nil, fail.New(fail.Invalid, "there is neither a group nor a profile").At(from).Do("name the directory that matchbox was started with as -data-path")
	}
	for _, problem := range append(problems, NewCatalog().Replace(cfg)...) {
		p.Problems = append(p.Problems, problem.Error())
	}
	places, err := p.open()
	if err != nil {
		return nil, err
	}
	defer places.close()
	if places.to, err = within.Open(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail.Wrap(fail.Refused, err, "open the directory to import into").At(to)
	}
	// Copy a file before the files that refer to it: templates and assets, then profiles, then groups.
	for _, sub := range []string{"assets", string(genericKind), string(cloudKind), string(ignitionKind), "profiles", "groups"} {
		if err := p.compare(places, sub); err != nil {
			return nil, fail.Wrap(fail.Internal, err, "compare the files to import").At(from)
		}
	}
	return p, nil
}

// places are the open directories of an import.
type places struct{ from, assets, to *within.Dir } // assets: nil if they are in from; to: nil if it does not exist

// open opens the directories for reading.
func (p *Import) open() (places, error) {
	var o places
	var err error
	if o.from, err = within.Open(p.from); err != nil {
		return o, fail.Wrap(fail.Invalid, err, "read the data directory").At(p.from)
	}
	if p.assets == "" {
		return o, nil
	}
	if o.assets, err = within.Open(p.assets); err != nil {
		o.close()
		return o, fail.Wrap(fail.Invalid, err, "read the assets")
	}
	return o, nil
}

func (o places) close() {
	for _, d := range []*within.Dir{o.from, o.assets, o.to} {
		if d != nil {
			_ = d.Close() // written data is synced already
		}
	}
}

// source returns the directory and the name to read a file of an import from.
func (o places) source(name string) (*within.Dir, string) {
	if below, ok := strings.CutPrefix(name+"/", "assets/"); ok && o.assets != nil {
		return o.assets, path.Clean("./" + below)
	}
	return o.from, name
}

// compare finds the new and the changed files of a directory. A file that can't be imported is a problem and does not stop the import.
func (p *Import) compare(o places, sub string) error {
	from, root := o.source(sub)
	err := eachFile(from, root, sub, func(name string) {
		file := path.Join(root, name)
		name = sub + "/" + name
		if info, err := from.Stat(file); err == nil && info.IsDir() {
			p.Problems = append(p.Problems, name+": a link to a directory: what lies there is not imported")
			return
		}
		ours, err := digest(from, file)
		if err != nil {
			p.problem(name, err)
			return
		}
		if o.to == nil {
			p.New = append(p.New, name)
			return
		}
		switch theirs, err := digest(o.to, name); {
		case errors.Is(err, fs.ErrNotExist):
			p.New = append(p.New, name)
		case err == nil && ours == theirs:
			p.Same++
			if !sameTime(from, file, o.to, name) {
				p.aged = append(p.aged, name)
			}
		default: // such as a link that leads outside: it is replaced, not followed
			p.Changed = append(p.Changed, name)
		}
	})
	if err == nil && sub == "assets" {
		err = p.emptyDirectories(o, from, root)
	}
	if within.Escapes(err) {
		p.problem(sub, err)
		return nil
	}
	return err
}

// emptyDirectories finds the empty directories of assets.
func (p *Import) emptyDirectories(o places, from *within.Dir, root string) error {
	filled := map[string]bool{}
	var all []string
	err := from.Walk(root, func(at string, d fs.DirEntry, err error) error {
		switch {
		case at == root && errors.Is(err, fs.ErrNotExist):
			return fs.SkipAll
		case err != nil:
			return err
		}
		filled[path.Dir(at)] = true
		if d.IsDir() && at != root {
			all = append(all, at)
		}
		return nil
	})
	for _, at := range all {
		if filled[at] {
			continue
		}
		name := path.Join("assets", strings.TrimPrefix(strings.TrimPrefix(at, root), "/"))
		if root == "." {
			name = path.Join("assets", at)
		}
		if o.to != nil {
			if info, e := o.to.Stat(name); e == nil && info.IsDir() {
				p.Same++
				continue
			}
		}
		p.New = append(p.New, name+"/")
	}
	return err
}

// sameTime reports whether two files have the same modification time. Without a time they differ.
func sameTime(a *within.Dir, nameA string, b *within.Dir, nameB string) bool {
	infoA, errA := a.Stat(nameA)
	infoB, errB := b.Stat(nameB)
	return errA == nil && errB == nil && infoA.ModTime().Equal(infoB.ModTime())
}

// problem records why a file is not imported, unless reading the configuration has reported it already.
func (p *Import) problem(name string, err error) {
	if text := (Problem{name, err}).Error(); !slices.Contains(p.Problems, text) {
		p.Problems = append(p.Problems, text)
	}
}

func digest(d *within.Dir, name string) (sum [sha256.Size]byte, err error) {
	f, err := d.Open(name)
	if err != nil {
		return sum, err
	}
	defer f.Close() // only read from
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// Run copies the new files and, with replace, the changed ones. A running server picks each up by itself. If ctx ends, the copied files stay, and
// another import continues.
func (p *Import) Run(ctx context.Context, replace bool) error {
	if len(p.Changed) > 0 && !replace {
		return fail.New(fail.Conflict, "there are other files of the same names: %s", strings.Join(p.Changed[:min(len(p.Changed), 5)], ", ")).At(p.to).
			Do("look at them, then say --replace")
	}
	places, err := p.open()
	if err != nil {
		return err
	}
	defer places.close()
	if places.to, err = within.Make(p.to, 0o755); err != nil {
		return fail.Wrap(fail.Refused, err, "make the boot directory")
	}
	for _, name := range append(p.Changed, p.New...) {
		if err := ctx.Err(); err != nil {
			return fail.Wrap(fail.Interrupted, err, "import a matchbox's directory").Do("the same command continues")
		}
		if err := places.copy(name); err != nil {
			return fail.Wrap(fail.Internal, err, "copy %s", name).At(p.to)
		}
	}
	for _, name := range p.aged {
		if err := places.copyTime(name); err != nil {
			return fail.Wrap(fail.Internal, err, "set the time of %s", name).At(p.to)
		}
	}
	return nil
}

// copy copies a file atomically with its modification time, which clients compare; or it creates an empty directory.
func (o places) copy(name string) error {
	if strings.HasSuffix(name, "/") {
		return o.to.MakeDir(name, 0o755)
	}
	from, file := o.source(name)
	in, err := from.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() // read only
	err = o.to.Write(name, 0o644, 0o755, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
	if err != nil {
		return err
	}
	return o.copyTime(name)
}

// copyTime sets a copied file's time to that of the original.
func (o places) copyTime(name string) error {
	from, file := o.source(name)
	info, err := from.Stat(file)
	if err != nil {
		return err
	}
	return o.to.SetTime(name, info.ModTime())
}
