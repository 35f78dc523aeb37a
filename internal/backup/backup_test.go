package backup

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// etcdData returns a snapshot in etcd's format: pages of 512 bytes followed by their SHA-256. It is longer than one piece.
func etcdData() []byte {
	data := bytes.Repeat([]byte("etcd"), (pieceSize+4096)/4)
	sum := sha256.Sum256(data)
	return append(data, sum[:]...)
}

// recipientOf generates an age identity.
func recipientOf(t *testing.T) (recipient string, identity []byte) {
	t.Helper()
	id := testkit.Value(age.GenerateX25519Identity())(t)
	return id.Recipient().String(), []byte("# of a test\n" + id.String() + "\n")
}

func part(cluster string) *Operator {
	return &Operator{
		Document: []byte("kind: Cluster\n"),
		Record: Record{ID: cluster + "-0badcafe", Name: cluster, Provider: "local", Bundle: "sha256-1", CreatedAt: noon, UpdatedAt: noon,
			Facts: []Fact{{Kind: "bootstrapped", Value: "true"}, {Kind: "etcd-join", Subject: "cp-1", Value: "a=b"}}},
		Secrets: map[string][]byte{"authority/etcd-ca": []byte("key"), "ssh": {0, 1, 2}},
	}
}

// source returns the Source of a small cluster.
func source(t *testing.T, cluster string, at time.Time, to ...string) Source {
	t.Helper()
	return Source{
		About:    Manifest{Cluster: cluster, ClusterID: cluster + "-0badcafe", Reason: "asked for", Kubernetes: "v1.2.3", Bundle: "sha256-1", Recipients: to},
		Operator: testkit.Value(part(cluster).Seal(to))(t),
		Now:      func() time.Time { return at },
		Snapshot: func(_ context.Context, w io.Writer) (Etcd, error) {
			_, err := w.Write(etcdData())
			e := Etcd{Version: "3.6.0", Member: "cp-1", Revision: 7}
			var tally Tally
			tally.Add([]byte("/registry/secrets/default/a"), []byte("x"))
			tally.Into(&e)
			return e, err
		},
	}
}

func TestSet(t *testing.T) {
	ctx := t.Context()
	target := Directory(t.TempDir())
	mine, key := recipientOf(t)
	other, otherKey := recipientOf(t)
	made := testkit.Value(Create(ctx, target, source(t, "demo", noon, mine, other)))(t)
	if !strings.HasPrefix(made.ID, "20261123T120000Z-") || made.Where() != string(target)+"/demo/"+made.ID {
		t.Errorf("it is %s in %s", made.ID, made.Where())
	}
	all := testkit.Value(List(ctx, target, "demo"))(t)
	if len(all) != 1 || all[0].SHA256 != made.SHA256 || all[0].Proven() || all[0].Etcd.Keys != 1 {
		t.Fatalf("listed are %+v", all)
	}
	for _, k := range [][]byte{key, otherKey} {
		dir := t.TempDir()
		c := testkit.Value(all[0].Extract(ctx, k, Trust{Unsigned: true}, dir))(t)
		want := part("demo")
		if string(c.Document) != string(want.Document) || !maps.EqualFunc(c.Secrets, want.Secrets, bytes.Equal) ||
			!slices.Equal(c.Record.Facts, want.Record.Facts) || c.BundleID != "sha256-1" || !c.Record.CreatedAt.Equal(noon) {
			t.Errorf("it holds %+v", c.Operator)
		}
		if got := testkit.Value(os.ReadFile(c.SnapshotPath))(t); !bytes.Equal(got, etcdData()) {
			t.Error("the snapshot is another one")
		}
		if info := testkit.Value(os.Stat(c.SnapshotPath))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("the snapshot has mode %v", info.Mode())
		}
	}
	for _, f := range testkit.Value(target.List(ctx, "demo"))(t) {
		raw := testkit.Value(os.ReadFile(target.path(f.Name)))(t)
		if info := testkit.Value(os.Stat(target.path(f.Name)))(t); info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", f.Name, info.Mode())
		}
		if bytes.Contains(raw, []byte("etcdetcd")) || bytes.Contains(raw, []byte("etcd-ca")) {
			t.Errorf("%s reveals content of the set", f.Name)
		}
	}
}

// TestProof checks that a proof counts only for its own set.
func TestProof(t *testing.T) {
	ctx := t.Context()
	target := Directory(t.TempDir())
	to, _ := recipientOf(t)
	testkit.Must(t, testkit.Value(Create(ctx, target, source(t, "demo", noon, to)))(t).Prove(ctx, nil, "v1", noon.Add(time.Hour), "counted"))
	s := testkit.Value(Open(ctx, target, "demo", Latest))(t)
	if !s.Proven() || s.Proof.Checks[0] != "counted" {
		t.Errorf("its proof is %+v", s.Proof)
	}
	newer := testkit.Value(Create(ctx, target, source(t, "demo", noon.Add(time.Hour), to)))(t)
	testkit.Must(t, os.WriteFile(target.path(newer.dir()+"/"+proofFile), testkit.Value(os.ReadFile(target.path(s.dir()+"/"+proofFile)))(t), 0o600))
	if s := testkit.Value(Open(ctx, target, "demo", Latest))(t); s.ID != newer.ID || s.Proven() {
		t.Errorf("the proof of another set proves %s", s.ID)
	}
}

func TestDamages(t *testing.T) {
	mine, key := recipientOf(t)
	_, strange := recipientOf(t)
	file := func(t *testing.T, d Directory, s *Set, name string, change func([]byte) []byte) {
		t.Helper()
		path := d.path(s.dir() + "/" + name)
		testkit.Must(t, os.WriteFile(path, change(testkit.Value(os.ReadFile(path))(t)), 0o600))
	}
	manifest := func(change func(*Manifest)) func([]byte) []byte {
		return func(raw []byte) []byte {
			var m Manifest
			if json.Unmarshal(raw, &m) != nil {
				panic("no manifest")
			}
			change(&m)
			out, _ := json.Marshal(m)
			return out
		}
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte { b[(at+len(b))%len(b)] ^= 1; return b }
	}
	// fits adapts the manifest to a changed set.age, so that only the content can reveal the change.
	fits := func(t *testing.T, d Directory, s *Set) {
		t.Helper()
		raw := testkit.Value(os.ReadFile(d.path(s.dir() + "/" + setFile)))(t)
		file(t, d, s, manifestFile, manifest(func(m *Manifest) { m.Bytes, m.SHA256 = int64(len(raw)), hexSum(raw) }))
	}
	cases := map[string]struct {
		do   func(t *testing.T, d Directory, s *Set)
		key  []byte
		kind fail.Kind
		say  string
	}{
		"cut off": {func(t *testing.T, d Directory, s *Set) {
			file(t, d, s, setFile, func(b []byte) []byte { return b[:len(b)/2] })
		}, key, fail.Invalid, "was cut off"},
		"cut off, and the manifest fits": {func(t *testing.T, d Directory, s *Set) {
			file(t, d, s, setFile, func(b []byte) []byte { return b[:len(b)/2] })
			fits(t, d, s)
		}, key, fail.Invalid, "open the backup"},
		"a bit in the middle": {func(t *testing.T, d Directory, s *Set) { file(t, d, s, setFile, flip(2000)) }, key, fail.Invalid, "not as it was written"},
		"a bit at the end":    {func(t *testing.T, d Directory, s *Set) { file(t, d, s, setFile, flip(-1)) }, key, fail.Invalid, "not as it was written"},
		"a bit of the head":   {func(t *testing.T, d Directory, s *Set) { file(t, d, s, setFile, flip(60)) }, key, fail.Invalid, "not as it was written"},
		"a bit, and the manifest fits": {func(t *testing.T, d Directory, s *Set) {
			file(t, d, s, setFile, flip(-40))
			fits(t, d, s)
		}, key, fail.Invalid, "open the backup"},
		"gone":        {func(t *testing.T, d Directory, s *Set) { testkit.Must(t, os.Remove(d.path(s.dir()+"/"+setFile))) }, key, fail.Invalid, "has lost its file"},
		"another key": {func(*testing.T, Directory, *Set) {}, strange, fail.Unauthorized, mine},
		"no key":      {func(*testing.T, Directory, *Set) {}, []byte("nothing"), fail.Invalid, "no age identity"},
		"another cluster's": {func(t *testing.T, d Directory, s *Set) {
			theirs := testkit.Value(Create(t.Context(), d, source(t, "theirs", noon, mine)))(t)
			file(t, d, s, setFile, func([]byte) []byte { return testkit.Value(os.ReadFile(d.path(theirs.dir() + "/" + setFile)))(t) })
			fits(t, d, s)
		}, key, fail.Refused, "belongs to cluster theirs"},
		"another one of the cluster": {func(t *testing.T, d Directory, s *Set) {
			old := testkit.Value(Create(t.Context(), d, source(t, "demo", noon.Add(-time.Hour), mine)))(t)
			file(t, d, s, setFile, func([]byte) []byte { return testkit.Value(os.ReadFile(d.path(old.dir() + "/" + setFile)))(t) })
			fits(t, d, s)
		}, key, fail.Refused, "another one, 20261123T110000Z"},
		"a manifest of another cluster": {func(t *testing.T, d Directory, s *Set) {
			file(t, d, s, manifestFile, manifest(func(m *Manifest) { m.Cluster = "theirs" }))
		}, key, fail.Refused, "in the place of another"},
		"a newer form": {func(t *testing.T, d Directory, s *Set) {
			file(t, d, s, manifestFile, manifest(func(m *Manifest) { m.Format = Format + 1 }))
		}, key, fail.Refused, "a newer naupegos"},
		"a manifest that is none": {func(t *testing.T, d Directory, s *Set) {
			file(t, d, s, manifestFile, func(b []byte) []byte { return b[:len(b)/2] })
		}, key, fail.Invalid, "manifest of the backup is damaged"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			d := Directory(t.TempDir())
			s := testkit.Value(Create(ctx, d, source(t, "demo", noon, mine)))(t)
			c.do(t, d, s)
			if all := testkit.Value(List(ctx, d, "demo"))(t); len(all) == 0 {
				t.Error("it is not listed any more")
			}
			dir := t.TempDir()
			s, err := Open(ctx, d, "demo", s.ID)
			if err == nil {
				_, err = s.Extract(ctx, c.key, Trust{Unsigned: true}, dir)
			}
			if fail.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v: %v", fail.KindOf(err), err)
			}
			if left := testkit.Value(os.ReadDir(dir))(t); len(left) > 0 {
				t.Errorf("left in the directory: %v", left)
			}
		})
	}
}

// TestSnapshots checks that a snapshot already damaged when it enters a set is detected.
func TestSnapshots(t *testing.T) {
	to, key := recipientOf(t)
	for say, change := range map[string]func([]byte) []byte{
		"is cut off":   func(b []byte) []byte { return b[:len(b)-40] },
		"does not fit": func(b []byte) []byte { b[1000] ^= 1; return b },
	} {
		d := Directory(t.TempDir())
		src := source(t, "demo", noon, to)
		src.Snapshot = func(_ context.Context, w io.Writer) (Etcd, error) {
			_, err := w.Write(change(etcdData()))
			return Etcd{}, err
		}
		s := testkit.Value(Create(t.Context(), d, src))(t)
		if _, err := s.Extract(t.Context(), key, Trust{Unsigned: true}, t.TempDir()); fail.KindOf(err) != fail.Invalid || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: %v", say, err)
		}
	}
}

// TestHalf checks that an incomplete set is not listed, and that the next backup removes its remains and nothing else.
func TestHalf(t *testing.T) {
	ctx := t.Context()
	d := Directory(t.TempDir())
	to, _ := recipientOf(t)
	whole := testkit.Value(Create(ctx, d, source(t, "demo", noon, to)))(t)
	for _, name := range []string{"20261123T110000Z-0001/set.age", "20261123T110000Z-0002/.set.age-123", whole.ID + "/.proof.json-1"} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(d.path("demo/"+name)), 0o700))
		testkit.Must(t, os.WriteFile(d.path("demo/"+name), []byte("half"), 0o600))
	}
	for _, name := range []string{"demo/20260101T000000Z.db.age", "demo/notes/mine.txt", "demo/key.age"} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(d.path(name)), 0o700))
		testkit.Must(t, os.WriteFile(d.path(name), []byte("theirs"), 0o600))
	}
	if all := testkit.Value(List(ctx, d, "demo"))(t); len(all) != 1 {
		t.Errorf("listed are %d sets", len(all))
	}
	testkit.Value(Create(ctx, d, source(t, "demo", noon.Add(time.Hour), to)))(t)
	if all := testkit.Value(List(ctx, d, "demo"))(t); len(all) != 2 {
		t.Errorf("listed are %d sets", len(all))
	}
	var names []string
	for _, f := range testkit.Value(d.List(ctx, "demo"))(t) {
		names = append(names, f.Name)
	}
	if len(names) != 7 || slices.ContainsFunc(names, func(n string) bool {
		return strings.Contains(n, "000") && strings.HasSuffix(n, "age") && strings.Contains(n, "-000")
	}) {
		t.Errorf("there are %v", names)
	}
	if left := testkit.Value(os.ReadDir(d.path("demo")))(t); len(left) != 5 {
		t.Errorf("directories that are empty stayed: %v", left)
	}
}

// TestFailedCreate checks that a failing data source leaves no remains of the set.
func TestFailedCreate(t *testing.T) {
	d := Directory(t.TempDir())
	to, _ := recipientOf(t)
	src := source(t, "demo", noon, to)
	src.Snapshot = func(_ context.Context, w io.Writer) (Etcd, error) {
		_, _ = w.Write(etcdData())
		return Etcd{}, fail.New(fail.Unreachable, "etcd is gone")
	}
	if _, err := Create(t.Context(), d, src); fail.KindOf(err) != fail.Unreachable {
		t.Errorf("%v", err)
	}
	if left := testkit.Value(d.List(t.Context(), ""))(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	src.Snapshot = func(context.Context, io.Writer) (Etcd, error) { return Etcd{}, errors.New("plain") }
	if _, err := Create(t.Context(), d, src); fail.KindOf(err) != fail.Refused || !strings.Contains(err.Error(), "plain") {
		t.Errorf("%v", err)
	}
}

func TestKey(t *testing.T) {
	ctx := t.Context()
	d := Directory(t.TempDir())
	_, key := recipientOf(t)
	if _, err := ReadKey(ctx, d, "demo", "secret"); fail.KindOf(err) != fail.NotFound {
		t.Errorf("without a key: %v", err)
	}
	testkit.Must(t, WriteKey(ctx, d, "demo", key, "secret"))
	if got := testkit.Value(ReadKey(ctx, d, "demo", "secret"))(t); !bytes.Equal(got, key) || !testkit.Value(HasKey(ctx, d, "demo"))(t) {
		t.Error("it is another key")
	}
	if _, err := ReadKey(ctx, d, "demo", "wrong"); fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("with another passphrase: %v", err)
	}
	testkit.Must(t, os.WriteFile(d.path("demo/key.age"), []byte("nothing"), 0o600))
	if _, err := ReadKey(ctx, d, "demo", "secret"); fail.KindOf(err) != fail.Invalid {
		t.Errorf("a damaged one: %v", err)
	}
}

func TestKinds(t *testing.T) {
	for key, want := range map[string]string{
		"/registry/pods/default/a": "pods", "/registry/namespaces/a": "namespaces", "/registry/services/specs/default/a": "services/specs",
		"/registry/apiextensions.k8s.io/customresourcedefinitions/a": "apiextensions.k8s.io/customresourcedefinitions",
		"/registry/example.org/things/default/a":                     "example.org/things", "/registry/masterleases/10.0.0.1": "masterleases",
		"/registry/ranges/serviceips": "ranges",
	} {
		if got := kindOf(key); got != want {
			t.Errorf("%s is of %s", key, got)
		}
	}
}

func hexSum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// TestDirectoryStaysInside: a directory target reads, lists, writes and removes nothing through links that lead outside. Relative links inside
// work, and so does a target that is itself a link.
func TestDirectoryStaysInside(t *testing.T) {
	top := t.TempDir()
	testkit.Must(t, os.MkdirAll(filepath.Join(top, "real", "demo"), 0o700))
	testkit.Must(t, os.WriteFile(filepath.Join(top, "secret"), []byte(testkit.Secret), 0o600))
	for name, to := range map[string]string{"demo/up": "../../secret", "demo/absolute": filepath.Join(top, "secret"), "out": "..", "demo/same": "file"} {
		testkit.Must(t, os.Symlink(to, filepath.Join(top, "real", name)))
	}
	testkit.Must(t, syscall.Mkfifo(filepath.Join(top, "real", "demo", "fifo"), 0o600))
	testkit.Must(t, os.Symlink("real", filepath.Join(top, "link")))
	d := Directory(filepath.Join(top, "link"))
	write := func(name string) error {
		return d.Create(t.Context(), name, func(w io.Writer) error {
			_, err := io.WriteString(w, "a set")
			return err
		})
	}
	testkit.Must(t, write("demo/file"))
	for _, name := range []string{"demo/file", "demo/same"} {
		f, size, err := d.Open(t.Context(), name)
		testkit.Must(t, err)
		if data := testkit.Value(io.ReadAll(f))(t); string(data) != "a set" || size != 5 {
			t.Errorf("%s: %q", name, data)
		}
		testkit.Must(t, f.Close())
	}
	for _, name := range []string{"demo/up", "demo/absolute", "out/secret", "demo/fifo", "../secret"} {
		_, _, err := d.Open(t.Context(), name)
		testkit.Fails(t, err, fail.Refused, filepath.Base(name))
	}
	_, err := d.List(t.Context(), "out")
	testkit.Fails(t, err, fail.Refused, "out")
	testkit.Fails(t, write("out/secret"), fail.Refused, "out")
	testkit.Fails(t, d.Remove(t.Context(), "out/secret"), fail.Refused, "out")
	if data := testkit.Value(os.ReadFile(filepath.Join(top, "secret")))(t); string(data) != testkit.Secret {
		t.Errorf("it was written through a link: %q", data)
	}
}
