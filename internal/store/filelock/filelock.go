// Package filelock takes the lock of a store's directory, and tells a waiting user which process holds it.
//
// It does not know what the lock protects, except for the words of its messages.
package filelock

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/fail"
)

// Wait says how long a command waits for a process that makes or updates the store. The zero value waits for Limit, and says nothing.
type Wait struct {
	For time.Duration // zero: Limit
	Say io.Writer     // receives one line if it takes long; nil: nothing
	TTY io.Writer     // terminal that receives one line if another process's write to the store's file takes long; nil: nothing
}

// Limit is the longest wait unless the user chose another.
const Limit = 60 * time.Second

// quiet is how long a wait needs no explanation.
const quiet = 2 * time.Second

// limit returns how long to wait.
func (w Wait) limit() time.Duration {
	if w.For > 0 {
		return w.For
	}
	return Limit
}

// Context returns a context that ends with the wait. After two seconds, or half of a shorter wait, it tells the user who holds the lock. end stops both.
func (w Wait) Context(ctx context.Context, holder func() string) (waiting context.Context, end func()) {
	waiting, cancel := context.WithTimeout(ctx, w.limit())
	if w.Say == nil {
		return waiting, cancel
	}
	told := make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-time.After(min(quiet, w.limit()/2)):
		case <-waiting.Done():
		}
		if !errors.Is(waiting.Err(), context.Canceled) {
			fmt.Fprintf(w.Say, "Waiting up to %s for %s, which makes or updates the store. --store-wait sets another limit.\n", w.limit(), holder())
		}
	}()
	return waiting, func() {
		cancel()
		<-told
	}
}

// unnoticed is how long a user takes the silence of a command for work.
const unnoticed = time.Second

// Begin begins a transaction, for which SQLite waits while another process writes. It tells the user so if that takes long.
func (w Wait) Begin(ctx context.Context, db *sql.DB, o *sql.TxOptions) (*sql.Tx, error) {
	if w.TTY == nil {
		return db.BeginTx(ctx, o)
	}
	began, told := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(told)
		select {
		case <-time.After(unnoticed):
			fmt.Fprintln(w.TTY, "Waiting for the store: another process writes to it, or it is slow to answer.")
		case <-began:
		}
	}()
	tx, err := db.BeginTx(ctx, o)
	close(began)
	<-told
	return tx, err
}

// Failed returns the error of a wait that has ended without the lock.
func (w Wait) Failed(ctx context.Context, holder, where string) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return fail.Wrap(fail.Interrupted, ctx.Err(), "wait for %s, which makes or updates the store", holder).At(where)
	}
	return fail.New(fail.Conflict, "%s has been making or updating the store for more than %s", holder, w.limit()).
		At(where).Do("run the command again when it has ended, or wait longer with --store-wait")
}

// Take takes the lock of the file at path, which the kernel releases if this process dies.
func (w Wait) Take(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fail.Wrap(fail.Refused, err, "lock the store").At(path)
	}
	if err = w.take(ctx, f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil // closing releases the lock
}

func (w Wait) take(ctx context.Context, f *os.File, path string) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return nil
	}
	waiting, end := w.Context(ctx, func() string { return holder(f) })
	defer end()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ; ; err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) {
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return fail.Wrap(fail.Internal, err, "lock the store").At(path)
		}
		select {
		case <-tick.C:
		case <-waiting.Done():
			return w.Failed(waiting, holder(f), path)
		}
	}
}
