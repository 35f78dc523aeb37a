package operate

import (
	"context"
	"net/url"
	"strings"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/store"
)

// kept is a path at a service where a document keeps what gives its cluster away: its authorities, or its backups.
type kept struct {
	field, host, credential, path string
	tree                          bool // with everything below the path
}

// keepsOf lists these paths of a document.
func keepsOf(doc *v1alpha1.Cluster) (all []kept) {
	add := func(field, address, credential string, tree bool) {
		u, err := url.Parse(address)
		if err != nil {
			return // the policy refuses it
		}
		all = append(all, kept{field, strings.ToLower(u.Host), credential, policy.PathOf(doc, field), tree})
	}
	if v := doc.Spec.PKI.VaultIssuer(); v != nil {
		add("spec.pki.issuer.vault.mount", v.Address, v.Auth.Credential, false)
	}
	var to v1alpha1.BackupTarget
	if b := doc.Spec.Backup; b != nil && b.To != nil {
		to = *b.To
	}
	if to.S3 != nil {
		add("spec.backup.to.s3.prefix", to.S3.Endpoint, to.S3.Credential, true)
	}
	if to.Swift != nil {
		add("spec.backup.to.swift.prefix", to.Swift.AuthURL, to.Swift.Credential, true)
	}
	return all
}

// meets reports whether two paths may be the same place: a service may have several names, but a credential is one service's.
func (k kept) meets(other kept) bool {
	if k.field != other.field || k.host != other.host && (k.credential == "" || k.credential != other.credential) {
		return false
	}
	return k.path == other.path || k.tree && (strings.HasPrefix(k.path, other.path+"/") || strings.HasPrefix(other.path, k.path+"/"))
}

// apart refuses a document that keeps its authorities or backups where another stored one does: a credential for both clusters would open both.
func apart(ctx context.Context, st store.Store, doc *v1alpha1.Cluster) error {
	mine := keepsOf(doc)
	if len(mine) == 0 {
		return nil
	}
	all, err := st.Clusters(ctx)
	if err != nil {
		return err
	}
	for _, rec := range all {
		if rec.Name == doc.Metadata.Name || len(rec.Document) == 0 {
			continue
		}
		theirs, err := validation.Parse("the stored document of "+rec.Name, rec.Document)
		if err != nil {
			continue // no session works with it
		}
		for _, other := range keepsOf(theirs) {
			for _, k := range mine {
				if k.meets(other) {
					return fail.New(fail.Refused, "%q belongs to another cluster of this server", k.path).At(k.field).Do("choose a path of the cluster's own, with the cluster's name as its last part")
				}
			}
		}
	}
	return nil
}
