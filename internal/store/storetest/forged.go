package storetest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// filled returns a store with two clusters, one, and two, which have facts, a queued job and the secrets a and b; tokens t1 and t2; sessions s1 and s2; the server's
// secrets x and y; two approved machines and one that waits; and a token of a group of machines.
func filled(t *testing.T, at Opener) store.Store {
	t.Helper()
	s, ctx := at("writer"), t.Context()
	for _, name := range []string{"one", "two"} {
		_, err := s.CreateCluster(ctx, store.Cluster{ID: name + "-00000000", Name: name, Provider: "local", Document: []byte("of " + name), Facts: store.Facts{{Kind: "host", Subject: "m"}: name}})
		testkit.Must(t, err)
		testkit.Must(t, s.SetFact(ctx, name+"-00000000", store.Fact{Kind: "late"}, name))
		_, err = s.AddJob(ctx, store.Job{Cluster: name, Verb: "apply", Title: "apply", Request: []byte(`{"of":"` + name + `"}`), Who: "ann"})
		testkit.Must(t, err)
		for _, secret := range []string{"a", "b"} {
			testkit.Must(t, s.Secrets(name+"-00000000").Put(ctx, secret, []byte(secret+" of "+name)))
		}
	}
	now := time.Now()
	for _, id := range []string{"t1", "t2"} {
		testkit.Must(t, s.AddToken(ctx, store.Token{ID: id, Name: "ann", Hash: "hash of " + id, Role: "read", Cluster: "one", Created: now, Expires: now.Add(time.Hour)}))
	}
	for _, id := range []string{"s1", "s2"} {
		testkit.Must(t, s.AddSession(ctx, store.Session{ID: id, Hash: "hash of " + id, Subject: "ann", Claims: []byte(`{"groups":["a"]}`), Created: now, Expires: now.Add(time.Hour)}))
	}
	testkit.Must(t, s.ServerSecrets().Put(ctx, "x", []byte("of x")))
	testkit.Must(t, s.ServerSecrets().Put(ctx, "y", []byte("of y")))
	for n := 1; n <= 3; n++ {
		uuid := newMachine(t, s.Metal(), n)
		_, err := s.Metal().Change(ctx, uuid, metal.How{}, func(d *metal.Draft) error {
			d.Approval, d.Record, d.Facts, d.Labels = "approved", []byte(`{"key":"of `+uuid+`"}`), []byte(`{"disks":[]}`), map[string]string{"rack": "r1", "row": "a"}
			d.MACs = append(d.MACs, fmt.Sprintf("52:54:00:00:01:%02x", n))
			if n == 3 {
				d.Approval, d.Waits = "pending", metal.Once
			}
			return nil
		})
		testkit.Must(t, err)
	}
	testkit.Must(t, s.Metal().Assign(ctx, func(all []metal.Machine) ([]metal.Assigned, error) {
		return []metal.Assigned{{UUID: all[0].UUID, Claim: metal.Claim{Cluster: "one", Pool: "w", Seat: 1}, Roles: []string{"node", "all", "all"}}, {UUID: all[1].UUID, Claim: metal.Claim{Cluster: "one", Pool: "w", Seat: 2}}}, nil
	}))
	testkit.Must(t, s.Metal().AddLockToken(ctx, metal.LockToken{ID: "l1", Group: "g", Hash: "hash of l1", Created: now, Expires: now.Add(time.Hour)}))
	return s
}

// reads returns a read of filled's rows, by table.
func reads(ctx context.Context, s store.Store) map[string]func() error {
	secret := func(cluster, name string) func() error {
		return func() error { _, err := s.Secrets(cluster).Get(ctx, name); return err }
	}
	return map[string]func() error{
		"cluster_keys": secret("one-00000000", "a"), "secrets": secret("one-00000000", "a"),
		"tokens":         func() error { _, err := s.Token(ctx, "t1"); return err },
		"all tokens":     func() error { _, err := s.Tokens(ctx); return err },
		"revoke":         func() error { return s.RevokeToken(ctx, "t1") },
		"sessions":       func() error { _, err := s.Session(ctx, "s1"); return err },
		"all sessions":   func() error { _, err := s.Sessions(ctx); return err },
		"server_secrets": func() error { _, err := s.ServerSecrets().Get(ctx, "x"); return err },
		"clusters":       func() error { _, err := s.Cluster(ctx, "one"); return err },
		"all clusters":   func() error { _, err := s.Clusters(ctx); return err },
		"save":           func() error { return s.SaveCluster(ctx, &store.Cluster{ID: "one-00000000"}) },
		"jobs":           func() error { return job(ctx, s) },
		"all jobs":       func() error { _, err := s.Jobs(ctx, "", 0); return err },
		"claim":          func() error { _, err := s.ClaimJob(ctx, time.Minute); return err },
		"machines":       func() error { _, err := s.Metal().Machine(ctx, aMachine); return err },
		"lookup":         func() error { _, err := s.Metal().Lookup(ctx, aMachine, ""); return err },
		"all machines":   func() error { _, _, err := s.Metal().Find(ctx, metal.Query{}); return err },
		"all facts":      func() error { _, _, err := s.Metal().Find(ctx, metal.Query{Facts: true}); return err },
		"assign": func() error {
			return s.Metal().Assign(ctx, func(all []metal.Machine) ([]metal.Assigned, error) { _, err := all[0].Look(); return nil, err })
		},
		"change": func() error {
			_, err := s.Metal().Change(ctx, aMachine, metal.How{Make: true}, func(d *metal.Draft) error { d.State = "known"; return nil })
			return err
		},
		"lock token":  func() error { _, err := s.Metal().LockToken(ctx, "l1"); return err },
		"lock tokens": func() error { _, err := s.Metal().LockTokens(ctx); return err },
	}
}

// job reads the oldest job by its ID, which no attacker of forgedRows changes.
func job(ctx context.Context, s store.Store) error {
	all, err := s.Jobs(ctx, "", 0)
	if err != nil {
		return err
	}
	_, err = s.Job(ctx, all[len(all)-1].ID)
	return err
}

// forgery is what a writer of the database does, the read of filled's rows that finds it, and words of the error.
type forgery struct {
	do   []string
	read string
	say  []string
}

// forgedMachines returns forgeries of machines, and of the tokens of their groups.
func forgedMachines(set func(table, column, value, where string) string, row func(table, key, columns, from, to string) string) map[string]forgery {
	const this, other, waiting = "uuid = '" + aMachine + "'", "5b7e1f3a-9c42-4d6b-8e21-000000000002", "5b7e1f3a-9c42-4d6b-8e21-000000000003"
	return map[string]forgery{
		"a machine's key":               {[]string{set("machines", "record", `'{"key":"mine"}'`, this)}, "machines", []string{"machines", aMachine}},
		"a machine's key, looked up":    {[]string{set("machines", "record", `'{"key":"mine"}'`, this)}, "lookup", []string{"machines", aMachine}},
		"a machine's key in the list":   {[]string{set("machines", "record", `'{"key":"mine"}'`, this)}, "all machines", []string{"machines", aMachine}},
		"a machine's key, changed":      {[]string{set("machines", "record", `'{"key":"mine"}'`, this)}, "change", []string{"machines", aMachine}},
		"another machine's record":      {[]string{row("machines", "uuid", "record mac", other, aMachine)}, "machines", []string{aMachine}},
		"an approval":                   {[]string{set("machines", "approval", "'approved'", "uuid = '"+waiting+"'"), set("machines", "waits", "0", "uuid = '"+waiting+"'")}, "all machines", []string{waiting}},
		"a machine's cluster":           {[]string{set("machines", "cluster", "'two'", this)}, "assign", []string{aMachine}},
		"a machine's facts":             {[]string{set("machines", "facts", "'{}'", this)}, "machines", []string{aMachine}},
		"a machine's facts, assigned":   {[]string{set("machines", "facts", "'{}'", this)}, "assign", []string{aMachine}},
		"a machine's facts in the list": {[]string{set("machines", "facts", "'{}'", "uuid = '"+waiting+"'")}, "all facts", []string{waiting}},
		"a machine's label":             {[]string{set("machine_labels", "value", "'r2'", this+" AND label = 'rack'")}, "machines", []string{aMachine}},
		"a machine's label, removed":    {[]string{"DELETE FROM machine_labels WHERE label = 'row'"}, "all machines", []string{"machines"}},
		"a machine's role":              {[]string{"INSERT INTO machine_roles (uuid, role) VALUES ('" + aMachine + "', 'zone')"}, "machines", []string{aMachine}},
		"a machine's addresses":         {[]string{set("machine_macs", "uuid", "'"+aMachine+"'", "mac = '52:54:00:00:01:02'")}, "machines", []string{aMachine}},
		"a machine without MAC":         {[]string{set("machines", "mac", "''", this)}, "machines", []string{"no MAC", aMachine}},
		"an inserted machine":           {[]string{"DELETE FROM machines WHERE " + this, "INSERT INTO machines (uuid, name, state, approval, cluster, pool, seat, record, facts, created_at, changed_at, seen_at) VALUES ('" + aMachine + "', '', 'discovered', 'approved', '', '', 0, '{}', '{}', 1, 1, 1)"}, "all machines", []string{"no MAC", aMachine}},
		"a group's token":               {[]string{set("lock_tokens", "hash", "'mine'", "id = 'l1'")}, "lock token", []string{"lock_tokens", "l1"}},
		"an inserted token of a group":  {[]string{"INSERT INTO lock_tokens (id, group_name, hash, created_at, expires) VALUES ('l2', 'g', 'mine', 1, 0)"}, "lock tokens", []string{"no MAC", "l2"}},
	}
}

// forgedRows: rows that were written without the identity are refused.
func forgedRows(t *testing.T, _ Opener, d Database) {
	row := func(table, key, columns, from, to string) string {
		set := make([]string, 0, 3)
		for column := range strings.SplitSeq(columns, " ") {
			set = append(set, column+" = (SELECT "+column+" FROM "+table+" WHERE "+key+" = '"+from+"')")
		}
		return "UPDATE " + table + " SET " + strings.Join(set, ", ") + " WHERE " + key + " = '" + to + "'"
	}
	set := func(table, column, value, where string) string {
		return "UPDATE " + table + " SET " + column + " = " + value + " WHERE " + where
	}
	const insertToken = "INSERT INTO tokens (id, name, hash, role, cluster, created_at, expires, revoked, mac) "
	all := forgedMachines(set, row)
	maps.Copy(all, map[string]forgery{
		"another cluster's wrapped key":      {[]string{row("cluster_keys", "cluster_id", "wrapped", "two-00000000", "one-00000000")}, "cluster_keys", []string{"cluster_keys", "one-00000000"}},
		"another cluster's row of keys":      {[]string{row("cluster_keys", "cluster_id", "wrapped mac", "two-00000000", "one-00000000")}, "cluster_keys", []string{"cluster_keys", "one-00000000"}},
		"a wrapped key without MAC":          {[]string{set("cluster_keys", "mac", "''", "cluster_id = 'one-00000000'")}, "cluster_keys", []string{"no MAC"}},
		"another name's secret":              {[]string{"UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE cluster_id = 'one-00000000' AND name = 'b'), mac = (SELECT mac FROM secrets WHERE cluster_id = 'one-00000000' AND name = 'b') WHERE cluster_id = 'one-00000000' AND name = 'a'"}, "secrets", []string{"secrets", "one-00000000/a"}},
		"another cluster's secret":           {[]string{"UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE cluster_id = 'two-00000000' AND name = 'a'), mac = (SELECT mac FROM secrets WHERE cluster_id = 'two-00000000' AND name = 'a') WHERE cluster_id = 'one-00000000' AND name = 'a'"}, "secrets", []string{"secrets", "one-00000000/a"}},
		"another cluster, key and secrets":   {[]string{row("cluster_keys", "cluster_id", "wrapped mac", "two-00000000", "one-00000000"), "UPDATE secrets SET sealed = (SELECT sealed FROM secrets WHERE cluster_id = 'two-00000000' AND name = 'a'), mac = (SELECT mac FROM secrets WHERE cluster_id = 'two-00000000' AND name = 'a') WHERE cluster_id = 'one-00000000' AND name = 'a'"}, "secrets", []string{"one-00000000"}},
		"a secret without MAC":               {[]string{set("secrets", "mac", "''", "cluster_id = 'one-00000000' AND name = 'a'")}, "secrets", []string{"no MAC", "one-00000000/a"}},
		"another server secret":              {[]string{row("server_secrets", "name", "sealed mac", "y", "x")}, "server_secrets", []string{"server_secrets", "x"}},
		"a server secret without MAC":        {[]string{set("server_secrets", "mac", "''", "name = 'x'")}, "server_secrets", []string{"no MAC"}},
		"a token's role":                     {[]string{set("tokens", "role", "'admin'", "id = 't1'")}, "tokens", []string{"tokens", "t1"}},
		"a token's cluster":                  {[]string{set("tokens", "cluster", "''", "id = 't1'")}, "tokens", []string{"t1"}},
		"a token's hash":                     {[]string{set("tokens", "hash", "'mine'", "id = 't1'")}, "tokens", []string{"t1"}},
		"a token's end":                      {[]string{set("tokens", "expires", "0", "id = 't1'")}, "tokens", []string{"t1"}},
		"a token's name":                     {[]string{set("tokens", "name", "'bob'", "id = 't1'")}, "tokens", []string{"t1"}},
		"a token's revocation":               {[]string{set("tokens", "revoked", "1", "id = 't1'")}, "tokens", []string{"t1"}},
		"another token's row":                {[]string{row("tokens", "id", "hash mac", "t2", "t1")}, "tokens", []string{"t1"}},
		"a token's row under another ID":     {[]string{"DELETE FROM tokens WHERE id = 't1'", insertToken + "SELECT 't1', name, hash, role, cluster, created_at, expires, revoked, mac FROM tokens WHERE id = 't2'"}, "tokens", []string{"t1"}},
		"an inserted token":                  {[]string{"DELETE FROM tokens WHERE id = 't1'", insertToken + "VALUES ('t1', 'eve', 'mine', 'admin', '', 1, 0, 0, '')"}, "tokens", []string{"no MAC", "t1"}},
		"an inserted token in the list":      {[]string{insertToken + "VALUES ('t3', 'eve', 'mine', 'admin', '', 1, 0, 0, '')"}, "all tokens", []string{"no MAC", "t3", "DELETE FROM tokens WHERE id = 't3'"}},
		"an inserted token, revoked":         {[]string{set("tokens", "role", "'admin'", "id = 't1'")}, "revoke", []string{"t1"}},
		"a session's claims":                 {[]string{set("sessions", "claims", "'{}'", "id = 's1'")}, "sessions", []string{"sessions", "s1"}},
		"a session's end":                    {[]string{set("sessions", "expires", "expires + 1", "id = 's1'")}, "sessions", []string{"s1"}},
		"another session's row":              {[]string{row("sessions", "id", "hash mac", "s2", "s1")}, "sessions", []string{"s1"}},
		"a document":                         {[]string{set("clusters", "document", "'mine'", "name = 'one'")}, "clusters", []string{"clusters", "one-00000000"}},
		"a document in the list":             {[]string{set("clusters", "document", "'mine'", "name = 'two'")}, "all clusters", []string{"clusters", "two-00000000"}},
		"another cluster's document":         {[]string{row("clusters", "id", "document mac", "two-00000000", "one-00000000")}, "clusters", []string{"one-00000000"}},
		"clusters that swap their names":     {[]string{set("clusters", "name", "'x'", "name = 'one'"), set("clusters", "name", "'one'", "name = 'two'")}, "clusters", []string{"two-00000000"}},
		"a cluster without MAC":              {[]string{set("clusters", "mac", "''", "name = 'one'")}, "clusters", []string{"no MAC"}},
		"a name, before the record is saved": {[]string{set("clusters", "name", "'other'", "name = 'one'")}, "save", []string{"one-00000000"}},
		"a fact":                             {[]string{set("facts", "value", "'mine'", "cluster_id = 'one-00000000' AND kind = 'host'")}, "clusters", []string{"facts", "one-00000000/host/m"}},
		"a fact in the list":                 {[]string{set("facts", "value", "'mine'", "cluster_id = 'two-00000000' AND kind = 'late'")}, "all clusters", []string{"facts", "two-00000000/late"}},
		"another cluster's fact":             {[]string{"DELETE FROM facts WHERE cluster_id = 'one-00000000'", set("facts", "cluster_id", "'one-00000000'", "cluster_id = 'two-00000000'")}, "clusters", []string{"facts", "one-00000000"}},
		"an inserted fact":                   {[]string{"INSERT INTO facts (cluster_id, kind, subject, value) VALUES ('one-00000000', 'trusted-host-key', 'm', 'mine')"}, "clusters", []string{"no MAC", "trusted-host-key"}},
		"a job's request":                    {[]string{set("jobs", "request", "'{\"document\":\"mine\"}'", "cluster = 'one'")}, "jobs", []string{"jobs"}},
		"a job's cluster":                    {[]string{set("jobs", "cluster", "'three'", "cluster = 'one'")}, "jobs", []string{"jobs"}},
		"a job's requester":                  {[]string{set("jobs", "who", "'bob'", "cluster = 'two'")}, "all jobs", []string{"jobs"}},
		"a job's plan":                       {[]string{set("jobs", "agreed", "'{}'", "cluster = 'one'")}, "jobs", []string{"jobs"}},
		"a job's result":                     {[]string{set("jobs", "result", "'{}'", "cluster = 'one'")}, "jobs", []string{"jobs"}},
		"another job's request":              {[]string{row("jobs", "cluster", "request mac", "two", "one")}, "jobs", []string{"jobs"}},
		"a job's request, taken":             {[]string{set("jobs", "request", "'{\"document\":\"mine\"}'", "cluster = 'one'")}, "claim", []string{"jobs"}},
		"an inserted job, taken": {[]string{"DELETE FROM jobs", `INSERT INTO jobs (id, cluster, verb, title, request, who, state, stop, generation, holder, expires, agreed, result, created_at, ended)
			VALUES ('20200101-000000-000000', 'one', 'apply', '', '{"unasked":true}', 'ann', 'queued', 0, 0, '', 0, '', '', 1, 0)`}, "claim", []string{"no MAC", "jobs"}},
		"a session without MAC in the list": {[]string{set("sessions", "mac", "''", "id = 's2'")}, "all sessions", []string{"no MAC", "s2"}},
	})
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			at := d.New(t)
			s := filled(t, at)
			for what, read := range reads(t.Context(), s) {
				if what == "revoke" || what == "save" || what == "claim" || what == "change" {
					continue
				}
				if err := read(); err != nil {
					t.Fatalf("before: %s: %v", what, err)
				}
			}
			for _, do := range c.do {
				d.SQL(t, s, do)
			}
			fresh := at("reader") // without cached keys
			testkit.Fails(t, reads(t.Context(), fresh)[c.read](), fail.Refused, append(c.say, "was not written with this store's identity")...)
		})
	}
}

// unmarkedStore: the first open of an older store adds MACs, and an attacker cannot trigger that again.
func unmarkedStore(t *testing.T, at Opener, d Database) {
	tables := []string{"cluster_keys", "secrets", "tokens", "sessions", "server_secrets", "clusters", "facts", "jobs", "machines", "lock_tokens"}
	strip := func(t *testing.T, s store.Store) {
		t.Helper()
		for _, table := range tables {
			d.SQL(t, s, "UPDATE "+table+" SET mac = ''")
		}
		d.SQL(t, s, "DELETE FROM store_facts WHERE name LIKE '%-authenticated'")
	}
	unmark := func(t *testing.T, s store.Store) {
		t.Helper()
		path := filepath.Join(s.Dir(), "identity.age")
		raw := string(testkit.Value(os.ReadFile(path))(t))
		var rest []string
		for line := range strings.Lines(raw) {
			if !strings.Contains(line, "carry MACs") {
				rest = append(rest, line)
			}
		}
		if len(rest) == 0 || strings.Join(rest, "") == raw {
			t.Fatal("the identity's file has no mark")
		}
		testkit.Must(t, os.WriteFile(path, []byte(strings.Join(rest, "")), 0o600))
	}
	s := filled(t, at)
	strip(t, s)
	unmark(t, s)
	migrated := at("writer")
	for what, read := range reads(t.Context(), migrated) {
		if err := read(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	strip(t, s) // as an attacker: the identity's file still has the mark
	migrated = at("writer")
	for what, read := range reads(t.Context(), migrated) {
		if err := read(); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "no MAC") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// forgedJobEnds: a job that a writer of the database queued, or that was over, is not carried out; the next one is.
func forgedJobEnds(t *testing.T, at Opener, d Database) {
	s, ctx := filled(t, at), t.Context()
	over := testkit.Value(s.ClaimJob(ctx, time.Minute))(t)
	testkit.Must(t, s.AgreeJob(ctx, over, []byte(`{"steps":[]}`)))
	testkit.Must(t, s.EndJob(ctx, over, []byte(`{}`)))
	d.SQL(t, s, "UPDATE jobs SET state = 'queued' WHERE id = '"+over.ID+"'")
	_, err := s.ClaimJob(ctx, time.Minute)
	testkit.Fails(t, err, fail.Refused, over.ID)
	got := testkit.Value(s.Job(ctx, over.ID))(t)
	if got.State != store.JobEnded || len(got.Request)+len(got.Agreed) > 0 || !strings.Contains(string(got.Result), "not carried out") {
		t.Errorf("the job is %+v", got)
	}
	if next := testkit.Value(s.ClaimJob(ctx, time.Minute))(t); next == nil || next.ID == over.ID {
		t.Errorf("the next job is %+v", next)
	}
}
