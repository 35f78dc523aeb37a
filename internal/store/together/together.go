// Package together carries out many callers' changes of a database in one transaction: a disk that is waited for at each commit is waited for
// once for all that have come meanwhile, and the next ones are carried out as soon as that commit ends.
//
// Each change has a savepoint and a result of its own: one that fails leaves nothing of itself, and the others as they are. It knows
// nothing of what is changed, and is for databases that have one writer at a time.
package together

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
)

// most is how many changes one transaction carries out: more would keep the first ones waiting.
const most = 128

// Begin begins a transaction, once it is this process' turn; ended is called when the transaction has. Only durable ones have to
// outlive a power cut.
type Begin func(ctx context.Context, durable bool) (tx *sql.Tx, ended func(), err error)

// Writer carries changes out. It has no goroutine while there is nothing to do, and needs no end.
type Writer struct {
	begin Begin

	mu      sync.Mutex
	waiting []*change
	busy    bool // a caller is carrying changes out, and will take the waiting ones next
}

// New returns a Writer on a database.
func New(begin Begin) *Writer { return &Writer{begin: begin} }

// change is one caller's.
type change struct {
	do       func(tx *sql.Tx) error
	durable  bool
	taken    atomic.Bool // being carried out, or withdrawn
	err      error
	panicked any
	done     chan struct{}
}

// Do carries a change out, and returns once it is committed. do has to do no harm when it is carried out twice, must not use the database but
// by tx, and must not begin what waits for another change. A context that ends withdraws what was not begun.
func (w *Writer) Do(ctx context.Context, durable bool, do func(tx *sql.Tx) error) error {
	c := &change{do: do, durable: durable, done: make(chan struct{})}
	w.mu.Lock()
	w.waiting = append(w.waiting, c)
	if !w.busy {
		w.busy = true
		go w.work()
	}
	w.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		if c.taken.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		<-c.done // do may write what its caller looks at
	}
	if c.panicked != nil {
		panic(c.panicked)
	}
	return c.err
}

// work carries changes out until none is waiting.
func (w *Writer) work() {
	for {
		all := w.next()
		if all == nil {
			return
		}
		if err := w.carry(all); err != nil {
			w.apart(all, err)
		}
		for _, c := range all {
			close(c.done)
		}
	}
}

// apart carries each change out alone after what they shared has failed with an error: what broke that, such as a disk that is full, may have
// to do with one of them.
func (w *Writer) apart(all []*change, err error) {
	for _, c := range all {
		if c.panicked != nil {
			continue
		}
		if len(all) > 1 {
			err = w.carry([]*change{c})
		}
		if err != nil {
			c.err = err
		}
	}
}

// next takes the waiting changes. If there are none, it returns nil and clears busy.
func (w *Writer) next() (all []*change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 && len(all) < most {
		c := w.waiting[0]
		w.waiting[0], w.waiting = nil, w.waiting[1:]
		if c.taken.CompareAndSwap(false, true) {
			all = append(all, c)
		}
	}
	if all == nil {
		w.busy, w.waiting = false, nil
	}
	return all
}

// carry carries changes out in one transaction. What a change has failed with is in it; an error is the transaction's, and has nothing written.
func (w *Writer) carry(all []*change) error {
	durable := false
	for _, c := range all {
		durable = durable || c.durable
	}
	// Not a caller's context: the transaction belongs to all callers.
	ctx := context.Background()
	tx, ended, err := w.begin(ctx, durable)
	if err != nil {
		return err
	}
	defer ended()
	failed := 0
	for _, c := range all {
		if err := c.carry(ctx, tx); err != nil {
			_ = tx.Rollback() // where that fails, the connection is gone, and the transaction with it
			return err
		}
		if c.err != nil || c.panicked != nil {
			failed++
		}
	}
	if failed == len(all) {
		_ = tx.Rollback() // as above
		return nil
	}
	return tx.Commit()
}

// carry carries one change out. An error says that the transaction is of no use any more.
func (c *change) carry(ctx context.Context, tx *sql.Tx) error {
	if _, err := tx.ExecContext(ctx, "SAVEPOINT one"); err != nil {
		return err
	}
	c.err = c.call(tx)
	if c.err != nil || c.panicked != nil {
		if _, err := tx.ExecContext(ctx, "ROLLBACK TO one"); err != nil {
			return errors.Join(c.err, err) // the first one says why the second came about
		}
	}
	_, err := tx.ExecContext(ctx, "RELEASE one")
	return err
}

// call keeps a panic for the caller, whose it is.
func (c *change) call(tx *sql.Tx) error {
	defer func() { c.panicked = recover() }()
	return c.do(tx)
}
