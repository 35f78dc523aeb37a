package store

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Verified describes the intact part of an audit log.
type Verified struct {
	Entries  int       `json:"entries"`
	First    int64     `json:"first"` // the oldest entry
	Began    time.Time `json:"began"` // the time of the oldest entry
	Last     int64     `json:"last"`
	Hash     string    `json:"hash"`               // of the last entry
	At       time.Time `json:"at"`                 // of the last entry
	Backward int       `json:"backward,omitempty"` // number of times that the clock went back
}

// AuditCheck verifies a chain, entry by entry, against its signed head.
type AuditCheck struct {
	key    ed25519.PublicKey
	head   AuditHead
	next   int64
	before string
	last   time.Time
	found  Verified
}

// CheckAudit starts the verification of a chain. It refuses a head that the key did not sign.
func CheckAudit(key ed25519.PublicKey, head AuditHead) (*AuditCheck, error) {
	if !signs(key, head.signed(), head.Signature) {
		return nil, broken("the head of the audit log, at entry %d, is not signed with this key", head.Seq)
	}
	if head.Seq == 0 {
		return nil, fail.New(fail.NotFound, "the audit log has no entries")
	}
	return &AuditCheck{key: key, head: head, next: head.First, before: head.Anchor, found: Verified{First: head.First}}, nil
}

func broken(format string, args ...any) error {
	return fail.New(fail.Refused, "%s", fmt.Sprintf(format, args...)).Do("the log was tampered with: compare it with forwarded entries and with backups of the store")
}

func signs(key ed25519.PublicKey, what []byte, signature string) bool {
	raw, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, what, raw)
}

// Entry verifies the next entry. The error names a broken entry. It ignores entries after the head.
func (c *AuditCheck) Entry(e *AuditEntry) error {
	switch {
	case e.Seq > c.head.Seq:
		return nil
	case e.Seq != c.next:
		return broken("entry %d of the audit log is missing: the next one is %d", c.next, e.Seq)
	case e.hashAfter(c.before) != e.Hash:
		return broken("entry %d of the audit log was changed, or the previous entry was replaced: its hash does not match (%s, %s: %s)", e.Seq, e.At.UTC().Format(time.RFC3339), e.Who, e.Action)
	case !signs(c.key, e.signed(), e.Signature):
		return broken("entry %d of the audit log is not signed with this key (%s, %s: %s)", e.Seq, e.At.UTC().Format(time.RFC3339), e.Who, e.Action)
	}
	if e.At.Before(c.last) {
		c.found.Backward++
	}
	if c.found.Entries == 0 {
		c.found.Began = e.At
	}
	c.next, c.before, c.last = e.Seq+1, e.Hash, e.At
	c.found.Entries, c.found.Last, c.found.Hash, c.found.At = c.found.Entries+1, e.Seq, e.Hash, e.At
	return nil
}

// End returns the result, or an error if entries are missing at the end.
func (c *AuditCheck) End() (Verified, error) {
	if c.next != c.head.Seq+1 {
		return c.found, broken("entry %d of the audit log is missing: the signed head is at entry %d", c.next, c.head.Seq)
	}
	if c.before != c.head.Hash {
		return c.found, broken("entry %d of the audit log does not match the signed head", c.head.Seq)
	}
	return c.found, nil
}

// AuditPage is the number of entries per read.
const AuditPage = 1000

// EachAudit calls do for each entry of the chain up to its current head, after one call for the head. Pruning during the call is not an error.
func EachAudit(ctx context.Context, st Auditing, begin func(AuditHead) error, do func(*AuditEntry) error) error {
	head, page, err := auditBegin(ctx, st)
	if err == nil {
		err = begin(head)
	}
	if err != nil {
		return err
	}
	for len(page) > 0 {
		for i := range page {
			if page[i].Seq > head.Seq {
				return nil
			}
			if err := do(&page[i]); err != nil {
				return err
			}
		}
		if page, err = st.AuditAfter(ctx, page[len(page)-1].Seq, AuditPage); err != nil {
			return err
		}
	}
	return nil
}

// auditBegin reads the head of the chain and its first entries. It repeats the read if they were pruned in between.
func auditBegin(ctx context.Context, st Auditing) (head AuditHead, page []AuditEntry, err error) {
	for range 3 {
		if head, err = st.AuditHead(ctx); err != nil {
			return head, nil, err
		}
		if page, err = st.AuditAfter(ctx, head.First-1, AuditPage); err != nil || len(page) == 0 || page[0].Seq == head.First {
			return head, page, err
		}
	}
	return head, page, nil // an entry is missing
}

// PrunedBefore reports whether an entry before the oldest kept one was old enough to be pruned.
func (v *Verified) PrunedBefore(now time.Time) bool { return v.Began.Before(now.Add(-keepAudit)) }

// VerifyAudit verifies a store's whole audit log with the store's own key.
func VerifyAudit(ctx context.Context, st Auditing) (found Verified, err error) {
	key, err := st.AuditKey(ctx)
	if err != nil {
		return found, err
	}
	var c *AuditCheck
	err = EachAudit(ctx, st, func(h AuditHead) (err error) {
		c, err = CheckAudit(key, h)
		return err
	}, func(e *AuditEntry) error { return c.Entry(e) })
	if err != nil {
		return found, err
	}
	if found, err = c.End(); err != nil {
		return found, err
	}
	loose, err := st.AuditLoose(ctx)
	if err == nil && loose > 0 {
		err = broken("%d entries of the audit log are outside of its chain of %d entries", loose, found.Entries)
	}
	return found, err
}
