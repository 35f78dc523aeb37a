package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/fail"
)

// nodeChange is a verb that changes which machines there are. The document is edited in memory first; it is stored, and
// written to the user's file where one is named, when the plan is confirmed.
type nodeChange struct {
	app  *App
	verb string // "node add"
	name string // of the cluster
	file string // the user's document; empty: the stored one
	run  runFlags
	dry  bool // show the plan, and change nothing
	out  output

	edit    func(doc *v1alpha1.Cluster, data []byte) ([]byte, error)          // nil: the document stays
	plan    func(context.Context, *cluster.Cluster) (*cluster.Applied, error) // the first plan
	decide  func(context.Context, *cluster.Cluster) error                     // remembers what the document can't say; may be nil
	doc     *v1alpha1.Cluster
	data    []byte // the edited document
	changed bool
}

// carryOut plans, asks, remembers and executes.
func (n *nodeChange) carryOut(ctx context.Context) error {
	o := sessionOptions{verb: n.verb, readOnly: true, bundle: getBundle, edit: n.read}
	if n.dry {
		o.verb, o.bundle = "", haveBundle
	}
	s, _, err := n.app.openNamed(ctx, n.name, o)
	if err != nil {
		return err
	}
	defer s.Close()
	began := time.Now()
	ap, err := n.plan(ctx, s.Cluster)
	if err != nil {
		return err
	}
	if n.dry {
		return n.app.printPlan(ap.Plan, ap.Later(), &n.out)
	}
	t := n.app.terms(&n.run, n.doc)
	t.Commit = func(ctx context.Context) error { return n.remember(ctx, s) }
	if _, err := s.Converge(ctx, ap, t); err != nil {
		return err
	}
	_, err = fmt.Fprintf(n.app.Out, "Cluster %s is as wanted (%s).\n", n.name, time.Since(began).Round(100*time.Millisecond))
	return err
}

// read finds the document and edits it.
func (n *nodeChange) read(stored []byte) (*v1alpha1.Cluster, error) {
	data, from := stored, "the stored document of "+n.name
	if n.file != "" {
		var err error
		if data, err = os.ReadFile(n.file); err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read the document")
		}
		from = n.file
	}
	doc, err := v1alpha1.Parse(from, data)
	if err != nil {
		return nil, err
	}
	if doc.Metadata.Name != n.name {
		return nil, fail.New(fail.Invalid, "%s describes cluster %s, not %s", from, doc.Metadata.Name, n.name)
	}
	n.doc, n.data = doc, data
	if n.edit == nil {
		return doc, nil
	}
	if n.data, err = n.edit(doc, data); err != nil {
		return nil, err
	}
	n.changed = true
	n.doc, err = v1alpha1.Parse(from+" with the change", n.data)
	return n.doc, err
}

// remember stores what is now wanted.
func (n *nodeChange) remember(ctx context.Context, s *session) error {
	if n.changed && n.file != "" {
		if err := rewrite(n.file, n.data); err != nil {
			return err
		}
		fmt.Fprintf(n.app.Err, "%s was changed.\n", n.file)
	}
	if n.changed && n.file == "" {
		fmt.Fprintf(n.app.Err, "The stored document was changed; if you keep it in a file, change that too or name it with -f.\n")
	}
	if err := s.Commit(ctx, n.data); err != nil {
		return err
	}
	if n.decide == nil {
		return nil
	}
	return n.decide(ctx, s.Cluster)
}

// rewrite puts new content in place of a file's, whole or not at all, and keeps its mode. A link stays a link.
func rewrite(path string, data []byte) (err error) {
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return fail.Wrap(fail.Invalid, err, "write %s", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "write %s", path)
	}
	return replaceFile(path, data, info.Mode().Perm())
}

// replaceFile writes a file, whole or not at all, in place of one that may be there.
func replaceFile(path string, data []byte, mode os.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".naupegos-*")
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write %s", path)
	}
	defer func() {
		if err != nil {
			_ = f.Close() // closed already, or the first error says more
			_ = os.Remove(f.Name())
		}
	}()
	for _, do := range []func() error{
		func() error { _, err := f.Write(data); return err },
		func() error { return f.Chmod(mode) },
		f.Sync, f.Close,
		func() error { return os.Rename(f.Name(), path) },
	} {
		if err := do(); err != nil {
			return fail.Wrap(fail.Refused, err, "write %s", path)
		}
	}
	return nil
}

// poolNames lists the pools of a document, for messages.
func poolNames(doc *v1alpha1.Cluster) string {
	var names []string
	for _, w := range doc.Spec.Workers {
		names = append(names, w.Name)
	}
	return strings.Join(names, ", ")
}
