package store

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Verified says what a check of the audit has found in order.
type Verified struct {
	Entries  int       `json:"entries"`
	First    int64     `json:"first"` // the oldest entry
	Last     int64     `json:"last"`
	Hash     string    `json:"hash"`               // of the last entry
	At       time.Time `json:"at"`                 // of the last entry
	Backward int       `json:"backward,omitempty"` // how often the clock went back between two entries
}

// AuditCheck checks a chain entry by entry, against its signed end.
type AuditCheck struct {
	key    ed25519.PublicKey
	head   AuditHead
	next   int64
	before string
	last   time.Time
	found  Verified
}

// CheckAudit begins to check a chain: it refuses an end that the key has not signed.
func CheckAudit(key ed25519.PublicKey, head AuditHead) (*AuditCheck, error) {
	if head.Seq == 0 {
		return nil, fail.New(fail.NotFound, "the audit log has no signed end: nothing was written since it is a chain")
	}
	if !signs(key, head.signed(), head.Signature) {
		return nil, broken("the signed end of the audit log, at entry %d, is not signed by this key", head.Seq)
	}
	return &AuditCheck{key: key, head: head, next: head.First, before: head.Anchor, found: Verified{First: head.First}}, nil
}

func broken(format string, args ...any) error {
	return fail.New(fail.Refused, "%s", fmt.Sprintf(format, args...)).Do("somebody has changed the log: compare it with what was forwarded, and with backups of the store")
}

func signs(key ed25519.PublicKey, what []byte, signature string) bool {
	raw, err := base64.StdEncoding.DecodeString(signature)
	return err == nil && len(key) == ed25519.PublicKeySize && ed25519.Verify(key, what, raw)
}

// Entry checks the next entry, and names it if it is broken. Entries that were written after the end are left out.
func (c *AuditCheck) Entry(e *AuditEntry) error {
	switch {
	case e.Seq > c.head.Seq:
		return nil
	case e.Seq != c.next:
		return broken("entry %d of the audit log is missing: the next one is %d", c.next, e.Seq)
	case e.hashAfter(c.before) != e.Hash:
		return broken("entry %d of the audit log was changed, or the one before it replaced: its hash does not fit (%s, %s: %s)", e.Seq, e.At.UTC().Format(time.RFC3339), e.Who, e.Action)
	case !signs(c.key, e.signed(), e.Signature):
		return broken("entry %d of the audit log is not signed by this key (%s, %s: %s)", e.Seq, e.At.UTC().Format(time.RFC3339), e.Who, e.Action)
	}
	if e.At.Before(c.last) {
		c.found.Backward++
	}
	c.next, c.before, c.last = e.Seq+1, e.Hash, e.At
	c.found.Entries, c.found.Last, c.found.Hash, c.found.At = c.found.Entries+1, e.Seq, e.Hash, e.At
	return nil
}

// End reports what was in order, or which entries are missing at the end.
func (c *AuditCheck) End() (Verified, error) {
	if c.next != c.head.Seq+1 {
		return c.found, broken("entry %d of the audit log is missing: it ends before entry %d, which its end is signed for", c.next, c.head.Seq)
	}
	if c.before != c.head.Hash {
		return c.found, broken("entry %d of the audit log is not the one that its end is signed for", c.head.Seq)
	}
	return c.found, nil
}

// AuditPage is how many entries are read at once.
const AuditPage = 1000

// EachAudit calls do for each entry of the chain up to its present end, which it returns first. Entries that are forgotten meanwhile are no fault.
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

// auditBegin reads the end of the chain and its first entries, again where they were forgotten in between.
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

// VerifyAudit checks the whole audit of a store by its own key.
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
		err = broken("%d entries of the audit log are in no chain, although it has %d that are", loose, found.Entries)
	}
	return found, err
}
