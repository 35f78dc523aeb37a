package cluster

import (
	"context"
	"slices"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

// overlay reads through to a cluster's secrets and keeps what is written in memory only: planning leaves no trace.
type overlay struct {
	under pki.Secrets // nil where the cluster does not exist yet
	mu    sync.Mutex
	over  map[string][]byte
}

func newOverlay(under pki.Secrets) *overlay { return &overlay{under: under, over: map[string][]byte{}} }

// Get prefers what was written here.
func (o *overlay) Get(ctx context.Context, name string) ([]byte, error) {
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
func (o *overlay) Put(_ context.Context, name string, v []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over[name] = v
	return nil
}

// PutIfAbsent keeps v unless there is a value already, and returns the one that counts.
func (o *overlay) PutIfAbsent(ctx context.Context, name string, v []byte) ([]byte, error) {
	have, err := o.Get(ctx, name)
	if fail.KindOf(err) != fail.NotFound {
		return have, err
	}
	return v, o.Put(ctx, name, v)
}

// Names lists both layers.
func (o *overlay) Names(ctx context.Context) ([]string, error) {
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
