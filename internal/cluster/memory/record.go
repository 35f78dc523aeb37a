package memory

import (
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/store"
)

// RecordOf is the record of a cluster as backups have it.
func RecordOf(rec *store.Cluster) backup.Record {
	r := backup.Record{ID: rec.ID, Name: rec.Name, Provider: rec.Provider, Bundle: BundleOf(rec), CreatedAt: rec.CreatedAt, UpdatedAt: rec.UpdatedAt}
	for f, v := range rec.Facts {
		r.Facts = append(r.Facts, backup.Fact{Kind: f.Kind, Subject: f.Subject, Value: v})
	}
	slices.SortFunc(r.Facts, func(a, b backup.Fact) int {
		return strings.Compare(a.Kind+"/"+a.Subject, b.Kind+"/"+b.Subject)
	})
	return r
}

// FromRecord is the record of a cluster out of a backup.
func FromRecord(r backup.Record, document []byte) store.Cluster {
	rec := store.Cluster{ID: r.ID, Name: r.Name, Provider: r.Provider, Document: document, Facts: store.Facts{}, CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt}
	for _, f := range r.Facts {
		rec.Facts[store.Fact{Kind: f.Kind, Subject: f.Subject}] = f.Value
	}
	return rec
}

// BundleOf returns the ID of the last applied bundle of a cluster, or "".
func BundleOf(rec *store.Cluster) string {
	_, id, _ := strings.Cut(NewFacts(rec, nil).Get(Bundle), " ")
	return id
}
