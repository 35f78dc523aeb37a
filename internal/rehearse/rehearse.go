// Package rehearse proves that a backup can be used: etcd and an API server from the cluster's own bundle open it in a sandbox with the backup's
// own keys, show every object and decrypt every Secret. It also produces the snapshot from which a cluster starts again.
//
// It receives the contents of sets already opened, and needs no root on this host.
package rehearse

import (
	"context"
	"encoding/base64"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
)

// Set is an opened backup.
type Set struct {
	ID         string
	Snapshot   string      // the file, decrypted
	Etcd       backup.Etcd // counts from the set's creation; not compared if Objects is empty
	Document   *v1alpha1.Cluster
	Encryption []string                   // providers by which API servers read Secrets: layout.Params
	Version    string                     // the release of Kubernetes whose API servers wrote it
	Secrets    map[string][]byte          // of the cluster, by name
	Keys       map[string]pki.Generations // generations in use, by name of the authority or key; the first of those not named
}

// Options configures a rehearsal.
type Options struct {
	Bundle  *bundle.Bundle // of the set's release
	Dir     string         // an empty private directory, which the caller removes
	Timeout time.Duration  // total; 0 means 10 minutes
	Status  func(format string, args ...any)
	// Tidy, if set, writes a snapshot to Out from which a cluster can start, without objects that no longer apply.
	Tidy *Tidy
	Out  string
}

const (
	registry       = layout.RegistryPrefix
	defaultTimeout = 10 * time.Minute
)

// Run rehearses a set. Its error is fail.Refused if the set is unusable.
func Run(ctx context.Context, set Set, o Options) (*Proof, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.Status == nil {
		o.Status = func(string, ...any) {}
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	k, known, err := keys(ctx, set)
	if err != nil {
		return nil, err
	}
	o.Status("unpacking the programs of bundle %s", o.Bundle.ID[:12])
	s, err := newSandbox(ctx, o.Dir, o.Bundle, params(set, o.Bundle), k)
	if err != nil {
		return nil, err
	}
	defer s.close()
	s.known = known
	o.Status("restoring etcd")
	if err := s.restore(ctx, set.Snapshot); err != nil {
		return nil, err
	}
	p := &Proof{Set: set.ID, Cluster: set.Document.Metadata.Name, Kubernetes: set.Version, Bundle: o.Bundle.ID}
	all, err := s.keys(ctx, p)
	if err != nil {
		return nil, err
	}
	if err := s.asCounted(ctx, set.Etcd); err != nil {
		return nil, err
	}
	tidy := newTidying(o.Tidy)
	c := newCensus(all, tidy)
	if err := s.examine(ctx, c, p, o.Status); err != nil {
		return nil, err
	}
	s.close()
	if tidy != nil {
		if err := s.tidied(ctx, set.Snapshot, o.Out, all, tidy, o.Status); err != nil {
			return nil, err
		}
		o.Status("taken out of it, as nothing of the kind is left: %s", words(tidy.counts()))
	}
	p.At, p.Seconds = time.Now().UTC().Truncate(time.Second), time.Since(began).Round(100*time.Millisecond).Seconds()
	return p, nil
}

// keys loads the set's secrets into a PKI that stores new ones only in memory, and returns the authority by which the set's clients identify the
// cluster. If the authorities' keys are kept elsewhere, the sandbox gets its own authorities: of the proof, only client access depends on them.
// fail.Refused if the set lacks any other key.
func keys(ctx context.Context, set Set) (_ *pki.PKI, known []byte, _ error) {
	in := memory.NewOverlay(nil)
	for name, value := range set.Secrets {
		if err := in.Put(ctx, name, value); err != nil {
			return nil, nil, err
		}
	}
	k := pki.Open(in, pki.Options{})
	if set.Document.Spec.PKI.VaultIssuer() != nil {
		var err error
		if known, err = k.Certificate(ctx, pki.KubernetesCA, max(set.Keys[pki.KubernetesCA].Signs, 1)); err != nil {
			return nil, nil, fail.Wrap(fail.Refused, err, "the set lacks the certificate of the cluster's authority").Do("use another set")
		}
		for _, name := range pki.Authorities() {
			if err := k.Forget(ctx, name, 1); err != nil {
				return nil, nil, err
			}
		}
	}
	k.Use(set.Keys)
	have, err := in.Names(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := k.Ensure(ctx); err != nil {
		return nil, nil, fail.Wrap(fail.Refused, err, "the set's keys are damaged")
	}
	now, err := in.Names(ctx)
	if err != nil {
		return nil, nil, err
	}
	made := len(now) - len(have)
	if known != nil {
		made -= len(pki.Authorities())
	} else if known, err = k.CABundle(ctx, pki.KubernetesCA); err != nil {
		return nil, nil, err
	}
	if made > 0 { // a key made now would not be the cluster's
		return nil, nil, fail.New(fail.Refused, "the set lacks keys of the cluster: it has %d of %d", len(have), len(have)+made).Do("use another set")
	}
	return k, known, nil
}

// params returns the cluster's common parameters, as far as a sandbox needs them.
func params(set Set, b *bundle.Bundle) layout.Params {
	s := set.Document.Spec
	return layout.Params{
		ClusterName: set.Document.Metadata.Name, PodCIDR: s.Kubernetes.PodCIDR, ServiceCIDR: s.Kubernetes.ServiceCIDR, DNSDomain: s.Kubernetes.DNSDomain,
		Release: layout.Release{Version: set.Version, Bundle: b.Manifest}, Encryption: set.Encryption,
	}
}

// keys lists the keys in etcd.
func (s *sandbox) keys(ctx context.Context, p *Proof) ([]string, error) {
	client, err := s.etcd(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	all, revision, err := client.Keys(ctx, registry)
	if err == nil && len(all) == 0 {
		err = fail.New(fail.Refused, "the snapshot is empty").Do("use another set")
	}
	p.Keys, p.Revision = len(all), revision
	return all, err
}

// asCounted compares etcd's keys with the counts and digests from the backup.
func (s *sandbox) asCounted(ctx context.Context, was backup.Etcd) error {
	if len(was.Objects) == 0 {
		return nil
	}
	client, err := s.etcd(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	var tally backup.Tally
	_, err = client.Values(ctx, registry, was.Revision, func(key, value []byte) error {
		tally.Add(key, value)
		return nil
	})
	if err != nil {
		return fail.Wrap(fail.Refused, err, "the snapshot does not have the revision that the set says")
	}
	var is backup.Etcd
	tally.Into(&is)
	var other []string
	for _, o := range was.Objects {
		if !slices.Contains(is.Objects, o) {
			other = append(other, o.Kind)
		}
	}
	if len(other) > 0 || is.Keys != was.Keys {
		return fail.New(fail.Refused, "the set differs from its manifest: it has %d of %d keys, and other objects of %s", is.Keys, was.Keys, strings.Join(other, ", ")).
			Do("use another set")
	}
	return nil
}

// tidied writes a snapshot from which a cluster can start; all are the keys in etcd. It starts again from the set's snapshot, without the writes of
// the sandbox's API server.
func (s *sandbox) tidied(ctx context.Context, snapshot, out string, all []string, t *tidying, status func(string, ...any)) error {
	if t.Anew != nil {
		if err := s.learn(ctx, t.Anew); err != nil {
			return err
		}
	}
	if err := s.restore(ctx, snapshot); err != nil {
		return err
	}
	client, err := s.etcd(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	gone := t.keys(all)
	if err := client.Delete(ctx, gone); err != nil {
		return err
	}
	if t.Anew != nil {
		stay := map[string]bool{}
		for _, key := range all {
			stay[key] = t.gone[key] == ""
		}
		if err := s.disown(ctx, client, t.Anew, stay, status); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(out, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fail.Wrap(fail.Refused, err, "write the snapshot")
	}
	defer f.Close() // for errors; otherwise it is closed already
	if _, err := client.Snapshot(ctx, io.Writer(f)); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return fail.Wrap(fail.Refused, err, "write the snapshot")
	}
	s.close()
	return nil
}

// decode decodes a value of a Secret (base64).
func decode(data string) (string, error) {
	out, err := base64.StdEncoding.DecodeString(data)
	return string(out), err
}
