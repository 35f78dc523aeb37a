package store

import (
	"crypto/ed25519"
	"database/sql"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/testkit"
)

// audited returns a store with audit entries, and a function that changes its database directly.
func audited(t *testing.T, entries int) (*database, func(query string, args ...any)) {
	t.Helper()
	st := testkit.Value(Open(t.Context(), Location{Dir: t.TempDir()}))(t)
	t.Cleanup(func() { testkit.Must(t, st.Close()) })
	s := st.(*database)
	for i := range entries {
		testkit.Must(t, st.Note(t.Context(), AuditEntry{At: time.Now(), Who: "ann (1)", Via: "token", Session: "1", From: "192.0.2.1", Action: fmt.Sprint("POST /", i), Outcome: "done"}))
	}
	return s, func(query string, args ...any) {
		t.Helper()
		testkit.Value(s.db.ExecContext(t.Context(), query, args...))(t)
	}
}

// TestAuditNamesTheFirstBrokenEntry tries each way of changing the log in the database.
func TestAuditNamesTheFirstBrokenEntry(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(change func(string, ...any))
		want string // empty: intact
	}{
		"nothing":           {func(func(string, ...any)) {}, ""},
		"who":               {func(change func(string, ...any)) { change("UPDATE audit SET who = 'bob' WHERE seq = 3") }, "entry 3"},
		"when":              {func(change func(string, ...any)) { change("UPDATE audit SET at = at + 1 WHERE seq = 4") }, "entry 4"},
		"how":               {func(change func(string, ...any)) { change("UPDATE audit SET via = 'x', session = '' WHERE seq = 1") }, "entry 1"},
		"outcome":           {func(change func(string, ...any)) { change("UPDATE audit SET outcome = 'refused' WHERE seq = 6") }, "entry 6"},
		"how often":         {func(change func(string, ...any)) { change("UPDATE audit SET repeated = 7 WHERE seq = 5") }, "entry 5"},
		"one removed":       {func(change func(string, ...any)) { change("DELETE FROM audit WHERE seq = 3") }, "entry 3"},
		"the first removed": {func(change func(string, ...any)) { change("DELETE FROM audit WHERE seq = 1") }, "entry 1"},
		"the last removed":  {func(change func(string, ...any)) { change("DELETE FROM audit WHERE seq = 6") }, "entry 6"},
		"all removed":       {func(change func(string, ...any)) { change("DELETE FROM audit") }, "entry 1"},
		"one added": {func(change func(string, ...any)) {
			change("INSERT INTO audit (id, at, who, origin, action, cluster, outcome) VALUES ('x', 1, 'eve', '', 'a', '', 'done')")
		}, "1 entries"},
		"two exchanged": {func(change func(string, ...any)) {
			change("UPDATE audit SET seq = 70 WHERE seq = 2")
			change("UPDATE audit SET seq = 2 WHERE seq = 3")
			change("UPDATE audit SET seq = 3 WHERE seq = 70")
		}, "entry 2"},
		"a signature": {func(change func(string, ...any)) { change("UPDATE audit SET signature = 'AAAA' WHERE seq = 2") }, "entry 2"},
		"the end put back": {func(change func(string, ...any)) {
			change("DELETE FROM audit WHERE seq > 4")
			change("UPDATE audit_head SET seq = 4, hash = (SELECT hash FROM audit WHERE seq = 4)")
		}, "the head of the audit log"},
		"the beginning moved": {func(change func(string, ...any)) {
			change("UPDATE audit_head SET first = 3, anchor = (SELECT hash FROM audit WHERE seq = 2)")
			change("DELETE FROM audit WHERE seq < 3")
		}, "the head of the audit log"},
		"all forged": {func(change func(string, ...any)) {
			change("DELETE FROM audit")
			change("INSERT INTO audit (id, at, who, origin, action, cluster, outcome) VALUES ('x', 1, 'eve', '', 'a', '', 'done')")
			change("UPDATE audit_head SET seq = 0, hash = '', first = 1, anchor = ''")
		}, "the head of the audit log"},
		"begun anew": {func(change func(string, ...any)) {
			change("DELETE FROM audit")
			change("UPDATE audit_head SET seq = 0, hash = '', first = 1, anchor = '', at = 0, signature = ''")
		}, "the head of the audit log"},
		"the head removed": {func(change func(string, ...any)) {
			change("UPDATE audit_head SET signature = ''")
		}, "the head of the audit log"},
	} {
		s, change := audited(t, 6)
		c.do(change)
		found, err := VerifyAudit(t.Context(), s)
		if e := s.Note(t.Context(), AuditEntry{At: time.Now(), Who: "ann (1)", Outcome: "done"}); e == nil && c.want != "" { // the next request must not hide it
			if _, err := VerifyAudit(t.Context(), s); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, one entry later: %v", name, err)
			}
		} else if e != nil && (c.want == "" || fail.KindOf(e) != fail.Refused) {
			t.Errorf("%s: %v", name, e)
		}
		if c.want == "" {
			if err != nil || found.Entries != 6 || found.First != 1 || found.Last != 6 {
				t.Errorf("%s: %+v %v", name, found, err)
			}
			continue
		}
		if fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRecomputedChain: recomputing all hashes does not hide a change without the key.
func TestRecomputedChain(t *testing.T) {
	s, change := audited(t, 5)
	_, forged, err := ed25519.GenerateKey(nil)
	testkit.Must(t, err)
	all := testkit.Value(s.AuditAfter(t.Context(), 0, 10))(t)
	before := ""
	for i := range all {
		if i == 2 {
			all[i].Who = "nobody"
		}
		if was := all[i].Hash; i >= 2 {
			all[i].link(before, forged)
			change("UPDATE audit SET who = $1, hash = $2, signature = $3 WHERE hash = $4", all[i].Who, all[i].Hash, all[i].Signature, was)
		}
		before = all[i].Hash
	}
	_, err = VerifyAudit(t.Context(), s)
	testkit.Fails(t, err, fail.Refused, "entry 3")
}

// TestPrunedAuditVerifies: after pruning, the rest of the chain verifies, and its head covers the new beginning.
func TestPrunedAuditVerifies(t *testing.T) {
	s, _ := audited(t, 0)
	now := time.Now()
	for i := range 10 {
		at := now.Add(-keepAudit - time.Duration(10-i)*time.Hour)
		if i >= 6 {
			at = now.Add(time.Duration(i) * time.Minute)
		}
		testkit.Must(t, s.Note(t.Context(), AuditEntry{At: at, Who: "ann", Action: fmt.Sprint(i), Outcome: "done"}))
	}
	found := testkit.Value(VerifyAudit(t.Context(), s))(t)
	if found.First != 7 || found.Entries != 4 || found.Last != 10 {
		t.Errorf("found is %+v", found)
	}
}

// TestClockThatGoesBack: entries keep the order of writing, and the verification counts the clock's steps back.
func TestClockThatGoesBack(t *testing.T) {
	s, _ := audited(t, 0)
	for _, off := range []time.Duration{0, time.Hour, 0, time.Minute} {
		testkit.Must(t, s.Note(t.Context(), AuditEntry{At: time.Now().Add(off), Who: "ann", Outcome: "done"}))
	}
	if found := testkit.Value(VerifyAudit(t.Context(), s))(t); found.Entries != 4 || found.Backward != 1 {
		t.Errorf("found is %+v", found)
	}
}

// TestEntriesWithoutChainAreNotSigned: any writer of the database may have added entries without a chain.
func TestEntriesWithoutChainAreNotSigned(t *testing.T) {
	s, change := audited(t, 0)
	for i := range 3 {
		change("INSERT INTO audit (id, at, who, origin, action, cluster, outcome) VALUES ($1, $2, 'ann', '192.0.2.1', 'POST /x', '', 'done')", fmt.Sprint(i), micros(time.Now())+int64(i))
	}
	testkit.Must(t, s.Note(t.Context(), AuditEntry{At: time.Now(), Who: "ann", Outcome: "done"}))
	_, err := VerifyAudit(t.Context(), s)
	testkit.Fails(t, err, fail.Refused, "3 entries")
}

// TestClockAheadPrunesLittle: while the clock is years ahead, entries are pruned slowly, and --head tells that they are gone.
func TestClockAheadPrunesLittle(t *testing.T) {
	s, _ := audited(t, 30)
	for range 5 {
		testkit.Must(t, s.Note(t.Context(), AuditEntry{At: time.Now().Add(2 * keepAudit), Who: "ann", Outcome: "done"}))
	}
	if found := testkit.Value(VerifyAudit(t.Context(), s))(t); found.First > 10 || found.PrunedBefore(time.Now()) {
		t.Errorf("found is %+v", found)
	}
}

// TestSinksPosition: Forwarded refuses positions with a wrong MAC or a changed entry, and accepts positions of pruned entries.
func TestSinksPosition(t *testing.T) {
	for name, do := range map[string]func(change func(string, ...any)){
		"ahead": func(change func(string, ...any)) { change("UPDATE audit_sinks SET seq = 9000000000") },
		"another entry": func(change func(string, ...any)) {
			change("UPDATE audit_sinks SET seq = 4, hash = (SELECT hash FROM audit WHERE seq = 4)")
		},
		"of another": func(change func(string, ...any)) {
			change("UPDATE audit_sinks SET seq = 5, hash = 'x', mac = (SELECT mac FROM audit_sinks WHERE sink = 'b') WHERE sink = 'a'")
		},
		"truncated": func(change func(string, ...any)) { change("DELETE FROM audit WHERE seq >= 3") },
		"replaced":  func(change func(string, ...any)) { change("UPDATE audit SET hash = 'x' WHERE seq = 3") },
	} {
		s, change := audited(t, 6)
		all := testkit.Value(s.AuditAfter(t.Context(), 0, 5))(t)
		testkit.Must(t, s.Forward(t.Context(), "a", all[2]))
		testkit.Must(t, s.Forward(t.Context(), "b", all[4]))
		if at := testkit.Value(s.Forwarded(t.Context(), "a"))(t); at != 3 {
			t.Errorf("the position is %d", at)
		}
		do(change)
		_, err := s.Forwarded(t.Context(), "a")
		testkit.Fails(t, err, fail.Refused)
		testkit.Must(t, s.Unforward(t.Context(), "a"))
		if at := testkit.Value(s.Forwarded(t.Context(), "a"))(t); at != 0 {
			t.Errorf("%s: the position is %d", name, at)
		}
	}
}

// TestAuditKeyIsNotMadeAgain: with a new key, entries signed with the lost one would look forged.
func TestAuditKeyIsNotMadeAgain(t *testing.T) {
	dir := t.TempDir()
	st := testkit.Value(Open(t.Context(), Location{Dir: dir}))(t)
	testkit.Must(t, st.Note(t.Context(), AuditEntry{At: time.Now(), Outcome: "done"}))
	testkit.Must(t, st.ServerSecrets().Delete(t.Context(), auditKeyName))
	testkit.Must(t, st.Close())
	st = testkit.Value(Open(t.Context(), Location{Dir: dir}))(t)
	defer st.Close()
	testkit.Fails(t, st.Note(t.Context(), AuditEntry{At: time.Now(), Outcome: "done"}), fail.Refused, "signing key is missing")
}

// TestManyWriteTheAudit: concurrent writers leave an intact chain.
func TestManyWriteTheAudit(t *testing.T) {
	s, _ := audited(t, 1)
	errs := make(chan error)
	for range 8 {
		go func() {
			for range 10 {
				if err := s.Note(t.Context(), AuditEntry{At: time.Now(), Who: "ann", Outcome: "done"}); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	for range 8 {
		testkit.Must(t, <-errs)
	}
	if found := testkit.Value(VerifyAudit(t.Context(), s))(t); found.Entries != 81 {
		t.Errorf("found is %+v", found)
	}
}

// TestFullDiskUnderTheAudit: a failed write is an error, and the chain is intact after the disk has space again.
func TestFullDiskUnderTheAudit(t *testing.T) {
	s, _ := audited(t, 3)
	var pages int
	testkit.Must(t, s.db.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages))
	limit := func(n int) {
		var got sql.NullInt64
		testkit.Must(t, s.db.QueryRowContext(t.Context(), fmt.Sprintf("PRAGMA max_page_count = %d", n)).Scan(&got))
	}
	limit(pages)
	var err error
	for range 200 { // fill the free space within pages first
		if err = s.Note(t.Context(), AuditEntry{At: time.Now(), Who: "ann", Action: strings.Repeat("x", 900), Outcome: "done"}); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("a full disk was not noticed")
	}
	if p := problem.Of(err); p.Status != http.StatusServiceUnavailable || strings.Contains(p.Detail, s.dir) || fail.Waitable(err) {
		t.Errorf("a server answers %d %s", p.Status, p.Detail)
	}
	limit(1 << 30)
	testkit.Must(t, s.Note(t.Context(), AuditEntry{At: time.Now(), Who: "ann", Outcome: "done"}))
	testkit.Value(VerifyAudit(t.Context(), s))(t)
}
