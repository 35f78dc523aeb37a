//go:build integration

package store_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/storetest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRotateOnPostgres rotates the identity of a shared store while another process writes: all writes can be read afterwards.
func TestRotateOnPostgres(t *testing.T) {
	t.Setenv("PGPASSWORD", storetest.Password)
	address := storetest.StartPostgres(t).NewDatabase(t)
	mine, theirs := store.Location{Dir: t.TempDir(), URL: address}, store.Location{Dir: t.TempDir(), URL: address}
	store.Populated(t, mine)
	share := func() {
		raw := testkit.Value(os.ReadFile(filepath.Join(mine.Dir, store.IdentityFile)))(t)
		testkit.Must(t, os.WriteFile(filepath.Join(theirs.Dir, store.IdentityFile), raw, 0o600))
	}
	share()
	before, _ := store.Complete(t, theirs)
	other := testkit.Value(store.Open(t.Context(), theirs))(t)
	written := 0
	var last error
	var wg sync.WaitGroup
	began, once := make(chan struct{}), sync.Once{}
	begin := func() { close(began) }
	wg.Go(func() {
		defer once.Do(begin)
		for until := time.Now().Add(time.Minute); last == nil && time.Now().Before(until); written++ {
			if last = other.ServerSecrets().Put(t.Context(), "late", []byte("x")); last == nil && written == 3 {
				once.Do(begin)
			}
		}
	})
	<-began
	testkit.Value(store.Rotate(t.Context(), mine))(t)
	wg.Wait()
	testkit.Fails(t, last, fail.Conflict, "was rotated")
	testkit.Must(t, other.Close())
	_, err := store.Open(t.Context(), theirs)
	testkit.Fails(t, err, fail.Unauthorized, "was rotated at")
	share()
	if after, _ := store.Complete(t, theirs); after == before {
		t.Error("the identity is the same")
	}
	s := testkit.Value(store.Open(t.Context(), theirs))(t)
	if got := testkit.Value(s.ServerSecrets().Get(t.Context(), "late"))(t); string(got) != "x" {
		t.Errorf("the concurrent write is %q", got)
	}
	testkit.Must(t, s.Close())
}
