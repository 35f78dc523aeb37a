package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/adopt"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/store"
)

// Import says how a cluster is reached that somebody has made with kubeadm.
type Import struct {
	From       string `json:"from" maxLength:"255" doc:"Address of one of its control-plane hosts"`
	User       string `json:"user,omitempty" maxLength:"64" doc:"Who logs in: root, also where it is left out, or one who may use sudo without a password"`
	Port       int    `json:"port,omitempty" minimum:"0" maximum:"65535" doc:"Port of SSH on all hosts; 0: 22"`
	Identity   string `json:"identity" maxLength:"1000" doc:"File with the private SSH key that logs in, where the server is"`
	KnownHosts string `json:"knownHosts" maxLength:"1000000" doc:"The hosts' SSH host keys, as lines of known_hosts"`
}

// Foreign is a cluster that was read to be taken over. Close it.
type Foreign struct {
	*adopt.Draft
	reader *adopt.Reader
	found  *adopt.Found
}

// Close ends the connections.
func (f *Foreign) Close() error { return f.reader.Close() }

// check refuses what does not say how a cluster is reached.
func (i *Import) check() error {
	switch {
	case i == nil || i.From == "":
		return fail.New(fail.Invalid, "no control-plane host is given").Do("name one of its control-plane hosts: --from ADDRESS")
	case i.Identity == "":
		return fail.New(fail.Invalid, "no SSH key is given").Do("--identity FILE names a private SSH key")
	case !filepath.IsAbs(i.Identity) && !strings.HasPrefix(i.Identity, "~/"):
		return fail.New(fail.Invalid, "the key %s has no absolute path", i.Identity).Do("--identity /PATH names a file where the server is")
	case i.Port < 0 || i.Port > 65535:
		return fail.New(fail.Invalid, "%d is not a port", i.Port)
	}
	return nil
}

func checkImport(a *Asked) error { return a.Import.check() }

// ReadForeign reads a cluster that the store does not know, and says which document describes it and where it differs from ours. Nothing is changed.
func ReadForeign(ctx context.Context, st store.Store, name string, i Import) (_ *Foreign, err error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	id := ""
	rec, err := st.Cluster(ctx, name)
	switch {
	case fail.KindOf(err) == fail.NotFound:
	case err != nil:
		return nil, err
	case !cluster.Importing(rec):
		return nil, fail.New(fail.Conflict, "there is a cluster %s already", name).Do("naupegos status %s shows it; choose another name for one that is not known yet", name)
	default:
		id = rec.ID
	}
	w := adopt.Way{From: i.From, User: i.User, Port: i.Port}
	if w.User == "" {
		w.User = "root"
	}
	if w.Port == 0 {
		w.Port = 22
	}
	keyFile, err := cluster.KeyPath(i.Identity)
	if err != nil {
		return nil, err
	}
	if w.Key, err = os.ReadFile(keyFile); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the key that logs in")
	}
	if w.Known, err = remote.ParseKnown("known_hosts", []byte(i.KnownHosts)); err != nil {
		return nil, err
	}
	f := &Foreign{}
	if f.reader, err = adopt.NewReader(w); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if f.found, err = f.reader.Read(ctx); err != nil {
		return nil, err
	}
	f.Draft, err = adopt.New(adopt.Options{Name: name, ID: id, KeyFile: keyFile, User: w.User, Port: w.Port}, f.found)
	return f, err
}

// openImport reads the cluster, and opens a session with what was read.
func openImport(ctx context.Context, st store.Store, b *Begun, o Options) error {
	refuse := func(err error) error { return (&Session{Store: st}).CloseWith(err) }
	f, err := ReadForeign(ctx, st, b.Asked.Cluster, *b.Asked.Import)
	if err != nil {
		return refuse(err)
	}
	b.foreign, b.undo = f, append(b.undo, f.Close)
	if b.Document, err = f.Cluster(); err != nil {
		return refuse(err)
	}
	given := &cluster.Given{}
	if given.Secrets, err = f.Secrets(); err == nil {
		given.Facts, err = f.Facts(ctx)
	}
	if err != nil {
		return refuse(err)
	}
	o.Given, o.NewID = given, b.Asked.ClusterID
	b.Session, err = OpenDocument(ctx, st, b.Document, o)
	return err
}

// planImport plans to take over what was read.
func planImport(_ context.Context, b *Begun) error {
	f := b.foreign
	p, err := b.Cluster.PlanImport(cluster.ImportOptions{Lost: f.Lost(), Changed: func(ctx context.Context) (string, error) {
		now, err := f.reader.Read(ctx)
		if err != nil {
			return "", err
		}
		return f.found.Changed(now), nil
	}})
	if err != nil {
		return err
	}
	b.only(p)
	carry := b.carry
	b.carry = func(ctx context.Context, t Terms) (Done, error) {
		t.Commit = func(ctx context.Context) error { return b.Commit(ctx, f.Document) }
		return carry(ctx, t)
	}
	name := b.Record.Name
	b.said = fmt.Sprintf("Cluster %[1]s is taken over; nothing of it was changed.\n  naupegos document %[1]s > cluster.yaml    its document\n  naupegos plan -f cluster.yaml    what the first apply would do", name)
	return nil
}
