package backup

import (
	"context"
	"slices"
	"time"
)

// Keep is a retention policy: a set stays if any field retains it. The zero value retains all sets.
type Keep struct {
	Last  int // number of newest sets
	Days  int // number of latest days (UTC) that have sets; the newest set of each stays
	Weeks int // number of latest weeks (UTC, from Monday) that have sets; the newest set of each stays
}

// Expired returns one cluster's sets that need not stay, oldest first. Sets must be sorted as by List. The newest proven set always stays, and so
// do unreadable sets and those of another cluster of the same name.
func (k Keep) Expired(sets []*Set, clusterID string) (gone []*Set) {
	if k == (Keep{}) {
		return nil
	}
	days, weeks := newest{left: k.Days}, newest{left: k.Weeks}
	last, proven := k.Last, false
	for _, s := range sets {
		if s.Problem != "" || s.ClusterID != clusterID {
			continue
		}
		at := s.CreatedAt.UTC()
		keep := last > 0
		last--
		keep = days.of(at.Format(time.DateOnly)) || keep
		keep = weeks.of(at.AddDate(0, 0, -(int(at.Weekday())+6)%7).Format(time.DateOnly)) || keep
		if s.Proven() && !proven {
			keep, proven = true, true
		}
		if !keep {
			gone = append(gone, s)
		}
	}
	slices.Reverse(gone)
	return gone
}

// newest picks the first set of each time span. left is the number of spans still to pick from.
type newest struct {
	left int
	span string // the span seen last
}

func (n *newest) of(span string) bool {
	if span == n.span {
		return false
	}
	n.span = span
	n.left--
	return n.left >= 0
}

// Remove removes a set, manifest first: without it, the set does not exist.
func (s *Set) Remove(ctx context.Context) error {
	for _, name := range []string{manifestFile, signatureFile, proofFile, setFile} {
		if err := s.target.Remove(ctx, s.dir()+"/"+name); err != nil {
			return err
		}
	}
	return nil
}
