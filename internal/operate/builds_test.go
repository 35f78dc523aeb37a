package operate

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestBundlesAreMadeOneAtATime: two requests for missing bundles wait for each other, what is there waits for nobody, and what may not be made is not.
func TestBundlesAreMadeOneAtATime(t *testing.T) {
	var making, most atomic.Int32
	begun, end := make(chan string, 8), make(chan struct{})
	has := func(_ context.Context, _ *v1alpha1.Cluster, version, _ string) (bool, error) {
		return version == "here", nil
	}
	find := FindBundle(func(_ context.Context, _ *v1alpha1.Cluster, version, _ string) (use, newest *bundle.Bundle, err error) {
		if version != "here" {
			most.Store(max(most.Load(), making.Add(1)))
			begun <- version
			<-end
			making.Add(-1)
		}
		return nil, nil, nil
	})
	turn := make(chan struct{}, 1)
	allowed := find.OneAtATime(has, func(*v1alpha1.Cluster, string) error { return nil }, turn)
	refused := find.OneAtATime(has, func(*v1alpha1.Cluster, string) error { return fail.New(fail.Refused, "no") }, turn)
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			if _, _, err := allowed(t.Context(), nil, fmt.Sprint("missing ", i), ""); err != nil {
				t.Error(err)
			}
		})
	}
	<-begun
	for _, f := range []FindBundle{allowed, refused} {
		_, _, err := f(t.Context(), nil, "here", "")
		testkit.Must(t, err)
	}
	_, _, err := refused(t.Context(), nil, "missing", "")
	testkit.Fails(t, err, fail.Refused, "no")
	impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, _, err := allowed(impatient, nil, "missing", ""); err == nil {
		t.Error("a request that waits does not end")
	}
	close(end)
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d were made at the same time", most.Load())
	}
}
