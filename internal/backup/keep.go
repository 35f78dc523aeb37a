package backup

import (
	"context"
	"slices"
	"time"
)

// Keep says which sets stay: those that one of its fields keeps. The zero value keeps all.
type Keep struct {
	Last  int // so many of the newest
	Days  int // the newest of each of so many days (UTC) on which there is one
	Weeks int // the newest of each of so many weeks (UTC, from Monday) in which there is one
}

// Expired returns the sets of one cluster that need not stay, the oldest first. Sets are sorted as List sorts them. The newest one that is
// proven stays, and so does what can't be read or belongs to another cluster of the same name: who made these knows more.
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

// newest picks the first set of each of some spans of time.
type newest struct {
	left int
	span string // the last one seen
}

func (n *newest) of(span string) bool {
	if span == n.span {
		return false
	}
	n.span = span
	n.left--
	return n.left >= 0
}

// Remove removes a set: the manifest first, without which it is none.
func (s *Set) Remove(ctx context.Context) error {
	for _, name := range []string{manifestFile, signatureFile, proofFile, setFile} {
		if err := s.target.Remove(ctx, s.dir()+"/"+name); err != nil {
			return err
		}
	}
	return nil
}
