package store

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/naupegos/naupegos/internal/store/metal"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestFactsOfOldStores opens a store of schema 1, which has facts as JSON.
func TestFactsOfOldStores(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	old := &database{dir: dir, where: dir, keys: map[string][]byte{}, fences: map[string]int64{}}
	testkit.Must(t, old.useSQLite())
	testkit.Must(t, old.up(ctx, 0, 1))
	unmarkedIdentity(t, dir)
	testkit.Must(t, loadIdentity(ctx, old))
	facts := testkit.Value(json.Marshal(map[string]string{
		"bootstrapped": "true", "cgroup-version": "2", "etcd-initial": "cp-1=u", "etcd-join/demo-cp-4": "cp-1=u,cp-4=v", "host/demo-a-1": "{}", "hostkeys/0b-1": "ssh-ed25519 AAAA\nssh-rsa BBBB",
		"host-key/demo-a-1": "ssh-ed25519 CCCC", "fate/demo-a-2": "remove", "wireguard/gateway/demo-gw-1": "10.9.0.1", "wireguard/peer/a/b": "10.9.0.3",
	}))(t)
	for name, text := range map[string]string{"demo": string(facts), "plain": "{}"} {
		_, err := old.db.ExecContext(ctx, "INSERT INTO clusters (id, name, provider, document, facts, created_at, updated_at) VALUES ($1, $1, 'local', 'kind: Cluster', $2, 1, 2)", name, text)
		testkit.Must(t, err)
	}
	oldSecret(t, old, "demo", "ca", "one")
	testkit.Must(t, old.Close())

	s := open(t, dir)
	got := testkit.Value(s.Cluster(ctx, "demo"))(t)
	want := Facts{
		{Kind: "bootstrapped"}: "true", {Kind: "cgroup-version"}: "2", {Kind: "etcd-initial"}: "cp-1=u", {"etcd-join", "demo-cp-4"}: "cp-1=u,cp-4=v",
		{"host", "demo-a-1"}: "{}", {"console-host-keys", "0b-1"}: "ssh-ed25519 AAAA\nssh-rsa BBBB", {"trusted-host-key", "demo-a-1"}: "ssh-ed25519 CCCC",
		{"decision", "demo-a-2"}: "remove", {"wireguard-gateway", "demo-gw-1"}: "10.9.0.1", {"wireguard-peer", "a/b"}: "10.9.0.3",
	}
	if d := cmp.Diff(want, got.Facts); d != "" {
		t.Error(d)
	}
	if string(got.Document) != "kind: Cluster" || got.Provider != "local" || got.UpdatedAt.UnixMicro() != 2 {
		t.Errorf("the record is %+v", got)
	}
	if v, err := s.Secrets("demo").Get(ctx, "ca"); err != nil || string(v) != "one" {
		t.Errorf("the secret is %q, %v", v, err)
	}
	testkit.Must(t, errors.Join(s.SetFact(ctx, "plain", Fact{Kind: "a"}, "b"), s.DeleteCluster(ctx, "demo")))
}

// TestUnusableMachinesOfOldStores opens a store of schema 9, which has no column that says why machines can't be used.
func TestUnusableMachinesOfOldStores(t *testing.T) {
	ctx, dir := t.Context(), t.TempDir()
	old := &database{dir: dir, where: dir, keys: map[string][]byte{}, fences: map[string]int64{}}
	testkit.Must(t, old.useSQLite())
	testkit.Must(t, old.up(ctx, 0, 9))
	unmarkedIdentity(t, dir)
	testkit.Must(t, loadIdentity(ctx, old))
	const disk = `"disks":"1 × 20 GB"`
	for uuid, m := range map[string][3]string{
		"unapproved": {"discovered", "pending", "{" + disk + "}"}, "maintenance": {"failed", "approved", `{"maintenance":"a fan is loud",` + disk + "}"},
		"failed": {"failed", "approved", "{}"}, "diskless": {"discovered", "approved", "{}"}, "": {"running", "approved", "{" + disk + "}"},
	} {
		_, err := old.db.ExecContext(ctx, `INSERT INTO machines (uuid, name, state, approval, cluster, pool, seat, record, facts, created_at, changed_at, seen_at)
			VALUES ($1, '', $2, $3, '', '', 0, $4, '{}', 1, 1, 1)`, "of "+uuid, m[0], m[1], m[2])
		testkit.Must(t, err)
	}
	testkit.Must(t, old.Close())

	all, _, err := open(t, dir).Metal().Find(ctx, metal.Query{})
	testkit.Must(t, err)
	for _, m := range all {
		if "of "+m.Unusable != m.UUID {
			t.Errorf("the machine %s can't be used for %q", m.UUID, m.Unusable)
		}
	}
	if len(all) != 5 {
		t.Errorf("there are %d machines", len(all))
	}
}

// unmarkedIdentity writes an identity file as before the introduction of MACs.
func unmarkedIdentity(t *testing.T, dir string) {
	t.Helper()
	id := testkit.Value(age.GenerateX25519Identity())(t)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, identityFile), []byte("# old\n"+id.String()+"\n"), 0o600))
}

// oldSecret writes a secret as before the introduction of MACs.
func oldSecret(t *testing.T, s *database, cluster, name, text string) {
	t.Helper()
	key := make([]byte, chacha20poly1305.KeySize)
	raw := testkit.Value(seal(key, []byte(text), (&secrets{s, cluster}).bind(name)))(t)
	for query, value := range map[string]string{
		"INSERT INTO cluster_keys (cluster_id, wrapped) VALUES ($1, $2)":                                testkit.Value(s.sealTo(key))(t),
		"INSERT INTO secrets (cluster_id, name, sealed, updated_at) VALUES ($1, '" + name + "', $2, 1)": base64.StdEncoding.EncodeToString(raw),
	} {
		_, err := s.db.Exec(query, cluster, value)
		testkit.Must(t, err)
	}
}
