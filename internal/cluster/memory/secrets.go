package memory

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

// Overlay reads a cluster's secrets and keeps changes in memory until Commit: planning changes nothing in the store.
type Overlay struct {
	under pki.Secrets // nil if the cluster does not exist yet
	mu    sync.Mutex
	over  map[string][]byte // nil once committed: writes go through
}

// NewOverlay returns an overlay over a cluster's secrets; nil if there are none yet.
func NewOverlay(under pki.Secrets) *Overlay { return &Overlay{under: under, over: map[string][]byte{}} }

// Get prefers values written to the overlay.
func (o *Overlay) Get(ctx context.Context, name string) ([]byte, error) {
	o.mu.Lock()
	v, ok := o.over[name]
	o.mu.Unlock()
	if ok {
		return v, nil
	}
	if o.under == nil {
		return nil, fail.New(fail.NotFound, "secret %s", name)
	}
	return o.under.Get(ctx, name)
}

// Put keeps a value in memory.
func (o *Overlay) Put(ctx context.Context, name string, v []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.over == nil {
		return o.under.Put(ctx, name, v)
	}
	o.over[name] = v
	return nil
}

// Commit writes the values in memory; later writes go through. After a failure it can be called again.
func (o *Overlay) Commit(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(o.over)) {
		if err := o.under.Put(ctx, name, o.over[name]); err != nil {
			return err
		}
	}
	o.over = nil
	return nil
}

func (o *Overlay) committed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.over == nil
}

// Delete deletes a value: permanently after Commit, and before that only if it was written to the overlay.
func (o *Overlay) Delete(ctx context.Context, name string) error {
	if o.committed() {
		return o.under.Delete(ctx, name)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.over, name)
	return nil
}

// PutIfAbsent keeps v unless there is a value already, and returns the one that counts.
func (o *Overlay) PutIfAbsent(ctx context.Context, name string, v []byte) ([]byte, error) {
	if o.committed() {
		return o.under.PutIfAbsent(ctx, name, v)
	}
	have, err := o.Get(ctx, name)
	if fail.KindOf(err) != fail.NotFound {
		return have, err
	}
	return v, o.Put(ctx, name, v)
}

// Names lists both layers.
func (o *Overlay) Names(ctx context.Context) ([]string, error) {
	var names []string
	if o.under != nil {
		var err error
		if names, err = o.under.Names(ctx); err != nil {
			return nil, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range o.over {
		names = append(names, n)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
