package together_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the database that this is for

	"github.com/naupegos/naupegos/internal/store/together"
	"github.com/naupegos/naupegos/internal/testkit"
)

// desk is a database with a Writer, and what its transactions were.
type desk struct {
	t       *testing.T
	db      *sql.DB
	w       *together.Writer
	mu      sync.Mutex
	durable []bool // of each transaction that was asked for
	refuse  int    // the number of one that does not begin; 0: none
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, db: testkit.Value(sql.Open("sqlite", filepath.Join(t.TempDir(), "db")))(t)}
	t.Cleanup(func() { testkit.Must(t, d.db.Close()) })
	d.db.SetMaxOpenConns(1)
	testkit.Value(d.db.Exec("CREATE TABLE n (n INTEGER PRIMARY KEY)"))(t)
	d.w = together.New(func(ctx context.Context, durable bool) (*sql.Tx, func(), error) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.durable = append(d.durable, durable)
		if len(d.durable) == d.refuse {
			return nil, nil, errors.New("no disk")
		}
		tx, err := d.db.BeginTx(ctx, nil)
		return tx, func() {}, err
	})
	return d
}

func put(n int) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.Exec("INSERT INTO n VALUES ($1)", n)
		return err
	}
}

// atOnce has changes wait together while another one is carried out, and returns what came of them.
func (d *desk) atOnce(durable bool, all ...func(*sql.Tx) error) []error {
	d.t.Helper()
	began, release := make(chan struct{}), make(chan struct{})
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	wg.Go(func() {
		testkit.Must(d.t, d.w.Do(d.t.Context(), false, func(*sql.Tx) error { close(began); <-release; return nil }))
	})
	<-began
	for i, do := range all {
		wg.Go(func() { errs[i] = d.w.Do(d.t.Context(), durable, do) })
	}
	testkit.Until(d.t, time.Minute, time.Millisecond, testkit.That("all wait", func() bool { return together.Waiting(d.w) == len(all) }))
	close(release)
	wg.Wait()
	return errs
}

// wrote is what the database has.
func (d *desk) wrote() (all []int) {
	d.t.Helper()
	rows := testkit.Value(d.db.Query("SELECT n FROM n ORDER BY n"))(d.t)
	defer rows.Close()
	for rows.Next() {
		var n int
		testkit.Must(d.t, rows.Scan(&n))
		all = append(all, n)
	}
	testkit.Must(d.t, rows.Err())
	return all
}

func TestManyShareATransaction(t *testing.T) {
	d := newDesk(t)
	var all []func(*sql.Tx) error
	for n := range 50 {
		all = append(all, put(n))
	}
	if err := errors.Join(d.atOnce(true, all...)...); err != nil {
		t.Error(err)
	}
	if !slices.Equal(d.durable, []bool{false, true}) || len(d.wrote()) != 50 {
		t.Errorf("transactions %v, wrote %v", d.durable, d.wrote())
	}
}

// TestOneFailsAlone has changes fail in several ways; what the same transaction was asked for besides is written.
func TestOneFailsAlone(t *testing.T) {
	d := newDesk(t)
	no := errors.New("no")
	errs := d.atOnce(false, put(1), func(tx *sql.Tx) error { return errors.Join(put(2)(tx), no) }, put(3), func(tx *sql.Tx) error { return errors.Join(put(7)(tx), put(7)(tx)) })
	if errs[0] != nil || !errors.Is(errs[1], no) || errs[2] != nil || errs[3] == nil {
		t.Errorf("%v", errs)
	}
	if got := d.wrote(); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("wrote %v", got)
	}
}

// TestTransactionFails has the one that several share fail: each is carried out alone, and only the one that has to do with it fails.
func TestTransactionFails(t *testing.T) {
	d := newDesk(t)
	broken := func(tx *sql.Tx) error { // as where SQLite rolls everything back because the disk is full
		_, err := tx.Exec("ROLLBACK")
		return errors.Join(err, errors.New("full"))
	}
	errs := d.atOnce(false, put(1), broken, put(3), put(3))
	if errs[0] != nil || errs[1] == nil || (errs[2] == nil) == (errs[3] == nil) {
		t.Errorf("%v", errs)
	}
	if got := d.wrote(); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("wrote %v", got)
	}
	d.refuse = len(d.durable) + 2 // the shared one after the first
	if errs := d.atOnce(false, put(4), put(5)); errs[0] != nil || errs[1] != nil {
		t.Errorf("%v", errs)
	}
	d.refuse = len(d.durable) + 1
	if err := d.w.Do(t.Context(), false, put(6)); err == nil {
		t.Error("one that was not written is acknowledged")
	}
	if got := d.wrote(); !slices.Equal(got, []int{1, 3, 4, 5}) {
		t.Errorf("wrote %v", got)
	}
}

// TestWithdrawn has a caller go away before it is its turn, and one panic.
func TestWithdrawn(t *testing.T) {
	d := newDesk(t)
	ctx, leave := context.WithCancel(t.Context())
	began, release := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		testkit.Must(t, d.w.Do(ctx, false, func(*sql.Tx) error { close(began); <-release; return nil })) // it was begun: its result counts
	})
	<-began
	gone := make(chan error)
	go func() { gone <- d.w.Do(ctx, false, put(1)) }()
	testkit.Until(t, time.Minute, time.Millisecond, testkit.That("it waits", func() bool { return together.Waiting(d.w) == 1 }))
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	close(release)
	wg.Wait()
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("the panic is not its caller's")
			}
		}()
		_ = d.w.Do(t.Context(), false, func(*sql.Tx) error { panic("mine") })
	}()
	testkit.Must(t, d.w.Do(t.Context(), false, put(2)))
	if got := d.wrote(); !slices.Equal(got, []int{2}) {
		t.Errorf("wrote %v", got)
	}
}
