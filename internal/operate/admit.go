package operate

import (
	"context"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/store"
)

// Admit refuses a document that uses a provider, or a resource of this host or its network, without permission by the server's policy. Every session
// calls it before opening anything that the document names. Without a policy it admits all: the operator is the host's user, with that user's rights.
func (o *Options) Admit(ctx context.Context, st store.Store, doc *v1alpha1.Cluster) error {
	if o.Policy == nil {
		return nil
	}
	var was *v1alpha1.Cluster
	rec, err := st.Cluster(ctx, doc.Metadata.Name)
	if err != nil && fail.KindOf(err) != fail.NotFound {
		return err
	}
	if err == nil && len(rec.Document) > 0 {
		was, _ = validation.Parse("the stored document of "+rec.Name, rec.Document) // an unreadable document allows no releases
	}
	if err := o.Policy.Check(ctx, policy.NewCredentials(st.ServerSecrets()), doc, was); err != nil {
		return err
	}
	return apart(ctx, st, doc)
}

// admitBackupsOf refuses another cluster's backups where a document keeps its own, unless the document's credential may be used for their path.
func (o *Options) admitBackupsOf(ctx context.Context, st store.Store, doc *v1alpha1.Cluster, of string) error {
	if o.Policy == nil || of == doc.Metadata.Name {
		return nil
	}
	return o.Policy.CheckBackupsOf(ctx, policy.NewCredentials(st.ServerSecrets()), doc, of)
}

// used is a credential that a document names, with the path at its service.
type used struct{ name, path string }

// named lists the credentials that a document names.
func named(doc *v1alpha1.Cluster) (all []used) {
	for _, f := range doc.HostFields() {
		if f.Use == v1alpha1.HostCredential && f.Value != "" {
			all = append(all, used{f.Value, policy.PathOf(doc, f.Path)})
		}
	}
	return all
}

// checkCredentials fails once the cluster may not use a credential that its document names. Finished steps stay; the same verb resumes from there.
func (s *Session) checkCredentials(ctx context.Context) error {
	for _, u := range s.credentials {
		if err := policy.NewCredentials(s.Store.ServerSecrets()).Within(ctx, s.Record.Name, u.name, u.path); err != nil {
			return err
		}
	}
	return nil
}

// Brings reports whether a request carries its own document instead of using the stored one.
func (a *Asked) Brings() bool { return a.Document != "" || a.Edited != nil }
