package operate

import (
	"context"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/store"
)

// Admit refuses a document that uses something of this host which the server's policy does not allow. Every session asks it before it opens anything
// that the document names. Without a policy the operator is the host's user, and the document may use what the user may.
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
		was, _ = v1alpha1.Parse("the stored document of "+rec.Name, rec.Document) // one that can't be read allows nothing
	}
	return o.Policy.Check(ctx, policy.NewCredentials(st.ServerSecrets()), doc, was)
}

// named lists the credentials that a document names.
func named(doc *v1alpha1.Cluster) (names []string) {
	for _, f := range doc.HostFields() {
		if f.Use == v1alpha1.HostCredential && f.Value != "" {
			names = append(names, f.Value)
		}
	}
	return names
}

// checkCredentials refuses to go on once a credential that the document names is gone. What was done stays; the same verb goes on from there.
func (s *Session) checkCredentials(ctx context.Context) error {
	for _, name := range s.credentials {
		if err := policy.NewCredentials(s.Store.ServerSecrets()).Usable(ctx, s.Record.Name, name); err != nil {
			return err
		}
	}
	return nil
}

// Brings reports whether a request brings a document of its own, in place of the one that the store has.
func (a *Asked) Brings() bool { return a.Document != "" || a.Edited != nil }
