// Package scaling determines the size of scaling pools: the last decision, within the document's bounds.
//
// It uses the document and recorded facts, and contacts no machine.
package scaling

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
)

// Pool is a pool of workers that scales.
type Pool struct {
	Name     string
	Min, Max int
	Size     int  // how many machines it is to have
	Changes  bool // it was decided lately, and is not carried out to its end
	Machines []Machine
	Shape    *Shape // shape of a new node; nil: unknown
}

// Machine is a machine of a pool: there, or to be made.
type Machine struct {
	Name       string
	ProviderID string // as its node has it
	Exists     bool
	Runs       bool
	Leaves     bool   // it is to go
	Problem    string // why it could not be made
}

// Shape describes a pool's nodes.
type Shape struct {
	Capacity    map[string]string `json:"capacity"`
	Allocatable map[string]string `json:"allocatable"` // the part of the capacity that pods may use
	Labels      map[string]string `json:"-"`
	Taints      []v1alpha1.Taint  `json:"-"`
}

// Find returns a scaling pool of the document, or nil.
func Find(doc *v1alpha1.Cluster, name string) *v1alpha1.Pool {
	for i := range doc.Spec.Workers {
		if p := &doc.Spec.Workers[i]; p.Name == name && p.Scales() {
			return p
		}
	}
	return nil
}

// StayWithSizes has pools that scale mean the numbers of machines that were decided last, within the document's bounds.
func StayWithSizes(f *memory.Facts, doc *v1alpha1.Cluster) {
	for i := range doc.Spec.Workers {
		n := SizeOf(f, doc.Spec.Workers[i])
		doc.Spec.Workers[i].Replicas = &n
	}
}

// SizeOf returns the wanted size of a pool; for a scaling pool the document does not contain it.
func SizeOf(f *memory.Facts, p v1alpha1.Pool) int {
	n, err := strconv.Atoi(f.Of(memory.PoolSize, p.Name))
	if err != nil || !p.Scales() {
		return p.Count()
	}
	return min(max(n, p.Least()), p.MaxReplicas)
}

// Changes reports whether another size of a pool was decided and is not carried out to its end.
func Changes(f *memory.Facts, p v1alpha1.Pool) bool { return f.Of(memory.PoolFormer, p.Name) != "" }

// Former returns the pools as they were before changes that are not done yet.
func Former(f *memory.Facts, pools []v1alpha1.Pool) []v1alpha1.Pool {
	out := slices.Clone(pools)
	for i := range out {
		if n, err := strconv.Atoi(f.Of(memory.PoolFormer, out[i].Name)); err == nil && out[i].Scales() {
			out[i].Replicas = &n
		}
	}
	return out
}

// Resize records another size of a pool. It returns fail.Refused if the document's bounds don't allow it.
func Resize(ctx context.Context, f *memory.Facts, doc *v1alpha1.Cluster, pool string, size int) error {
	p := Find(doc, pool)
	switch {
	case p == nil:
		return fail.New(fail.NotFound, "cluster %s has no pool %s that scales", doc.Metadata.Name, pool).Do("give it maxReplicas in the document and apply")
	case size < p.Least() || size > p.MaxReplicas:
		return fail.New(fail.Refused, "pool %s of cluster %s can't have %d machines: its bounds are %d and %d", pool, doc.Metadata.Name, size, p.Least(), p.MaxReplicas).
			Do("change minReplicas or maxReplicas in the document and apply")
	}
	if f.Of(memory.PoolFormer, pool) == "" {
		if err := f.SetOf(ctx, memory.PoolFormer, pool, strconv.Itoa(p.Count())); err != nil {
			return err
		}
	}
	p.Replicas = &size
	return f.SetOf(ctx, memory.PoolSize, pool, strconv.Itoa(size))
}

// Remember records the sizes of scaling pools once the cluster conforms to its document: from then on, the document's initial sizes do not
// matter. It deletes the facts of pools that don't scale.
func Remember(ctx context.Context, f *memory.Facts, doc *v1alpha1.Cluster) error {
	for _, kind := range []memory.Kind{memory.PoolSize, memory.PoolShape} {
		for pool := range f.Each(kind) {
			if Find(doc, pool) != nil {
				continue
			}
			if err := f.SetOf(ctx, kind, pool, ""); err != nil {
				return err
			}
		}
	}
	for pool := range f.Each(memory.PoolFormer) {
		if err := f.SetOf(ctx, memory.PoolFormer, pool, ""); err != nil {
			return err
		}
	}
	for _, p := range doc.Spec.Workers {
		if !p.Scales() {
			continue
		}
		if err := f.SetOf(ctx, memory.PoolSize, p.Name, strconv.Itoa(p.Count())); err != nil {
			return err
		}
	}
	return nil
}

// RememberShape records the shape of a pool's node, for the time when the pool is empty.
func RememberShape(ctx context.Context, f *memory.Facts, pool string, s Shape) error {
	data, err := json.Marshal(s)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write down what a node of pool %s has", pool)
	}
	return f.SetOf(ctx, memory.PoolShape, pool, string(data))
}

// ShapeOf returns the last observed shape of a pool's nodes, or nil.
func ShapeOf(f *memory.Facts, pool string) *Shape {
	var s Shape
	if json.Unmarshal([]byte(f.Of(memory.PoolShape, pool)), &s) != nil {
		return nil
	}
	return &s
}
