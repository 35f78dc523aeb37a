package store

import (
	"context"
	"time"
)

// OpenAs opens a store as a process of another machine does; empty: of this one.
func OpenAs(ctx context.Context, at Location, machine string) (Store, error) {
	s, err := openWith(ctx, at, (*database).openOrMake)
	if err != nil {
		return nil, err
	}
	if machine != "" {
		s.self.Host, s.self.Boot = machine, "boot of "+machine
	}
	return s, nil
}

// HoldUp ends a lease's heartbeats.
func HoldUp(l Lease) {
	mine := l.(*lease)
	mine.cancel()
	<-mine.done
}

// SetPatience says how long a database that went away is waited for.
func SetPatience(s Store, d time.Duration) { s.(*database).patience = d }

// IdentityFile is the name of the identity in a store's directory.
const IdentityFile = identityFile
