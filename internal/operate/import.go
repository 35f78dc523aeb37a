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
	"github.com/naupegos/naupegos/internal/cluster/backups"
	"github.com/naupegos/naupegos/internal/cluster/env"
	"github.com/naupegos/naupegos/internal/cluster/login"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/place"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/store"
)

// Import says how to reach a cluster made with kubeadm.
type Import struct {
	From       string `json:"from" maxLength:"255" doc:"Address of one of its control-plane hosts"`
	User       string `json:"user,omitempty" maxLength:"64" doc:"The login user: root (the default), or another user who may use sudo without a password"`
	Port       int    `json:"port,omitempty" minimum:"0" maximum:"65535" doc:"Port of SSH on all hosts; 0: 22"`
	Identity   string `json:"identity,omitempty" maxLength:"1000" doc:"File with the private SSH key that logs in; a server takes none"`
	Credential string `json:"credential,omitempty" maxLength:"63" doc:"The credential that holds the private SSH key that logs in, in place of identity"`
	KnownHosts string `json:"knownHosts" maxLength:"1000000" doc:"The hosts' SSH host keys, as lines of known_hosts"`
}

// Foreign is a cluster that was read for an import. The caller must close it.
type Foreign struct {
	*adopt.Draft
	reader *adopt.Reader
	found  *adopt.Found
}

// Close ends the connections.
func (f *Foreign) Close() error { return f.reader.Close() }

// check refuses incomplete or contradictory options.
func (i *Import) check() error {
	switch {
	case i == nil || i.From == "":
		return fail.New(fail.Invalid, "no control-plane host is given").Do("name one of its control-plane hosts: --from ADDRESS")
	case i.Identity == "" && i.Credential == "":
		return fail.New(fail.Invalid, "no SSH key is given").Do("--identity FILE names a private SSH key; --credential NAME one that a server has")
	case i.Identity != "" && i.Credential != "":
		return fail.New(fail.Invalid, "an SSH key is given by a file and by a credential").Do("give --identity or --credential")
	case i.Identity != "" && !filepath.IsAbs(i.Identity) && !strings.HasPrefix(i.Identity, "~/"):
		return fail.New(fail.Invalid, "the key %s has no absolute path", i.Identity).Do("--identity /PATH names a file on the server's host")
	case i.Port < 0 || i.Port > 65535:
		return fail.New(fail.Invalid, "%d is not a port", i.Port)
	}
	return nil
}

func checkImport(a *Asked) error { return a.Import.check() }

// ReadForeign reads a cluster that the store does not know, or only from a begun import. It returns the document that describes the cluster, and the
// cluster's differences from one made by Naupegos. It changes nothing.
//
// p is the policy of a server; nil: the operator is the host's user.
func ReadForeign(ctx context.Context, st store.Store, name string, i Import, p *policy.Policy) (_ *Foreign, err error) {
	if err := i.check(); err != nil {
		return nil, err
	}
	id := ""
	rec, err := st.Cluster(ctx, name)
	switch {
	case fail.KindOf(err) == fail.NotFound:
	case err != nil:
		return nil, err
	case !env.Importing(rec):
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
	keyFile, err := i.key(ctx, &w, name, policy.NewCredentials(st.ServerSecrets()), p)
	if err != nil {
		return nil, err
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
	f.Draft, err = adopt.New(adopt.Options{Name: name, ID: id, KeyFile: keyFile, Credential: i.Credential, User: w.User, Port: w.Port}, f.found)
	return f, err
}

// key finds the SSH key and returns its file; empty: the key is in a credential, which is bound to certain hosts.
func (i *Import) key(ctx context.Context, w *adopt.Way, name string, creds policy.Credentials, p *policy.Policy) (file string, err error) {
	at := func(address string) place.Address { return policy.HostAt("ssh", address, w.Port) }
	if p != nil {
		if err := p.CheckImport(ctx, creds, name, i.Identity, i.Credential, at(w.From)); err != nil {
			return "", err
		}
	}
	if i.Credential != "" {
		value, allowed, err := creds.Open(ctx, name, i.Credential)
		w.Key, w.Allowed = value, func(address string) error { return allowed(at(address)) }
		return "", err
	}
	if file, err = login.Path(i.Identity); err != nil {
		return "", err
	}
	if w.Key, err = os.ReadFile(file); err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read the key that logs in")
	}
	return file, nil
}

// openImport reads the cluster and opens a session on it.
func openImport(ctx context.Context, st store.Store, b *Begun, o Options) error {
	refuse := func(err error) error { return (&Session{Store: st}).CloseWith(err) }
	f, err := ReadForeign(ctx, st, b.Asked.Cluster, *b.Asked.Import, o.Policy)
	if err != nil {
		return refuse(err)
	}
	b.foreign, b.undo = f, append(b.undo, f.Close)
	if b.Document, err = f.Cluster(); err != nil {
		return refuse(err)
	}
	given := &backups.Given{}
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

// planImport plans to take over the cluster that openImport read.
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
