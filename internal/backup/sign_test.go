package backup

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// signed returns a source signed with the cluster's key, which an identity endorses.
func signed(t *testing.T, at time.Time, to string, key, identity []byte) Source {
	t.Helper()
	src := source(t, "demo", at, to)
	src.About.Authority = "0badcafe"
	src.Sign = testkit.Value(NewSigner(key, identity, src.About.ClusterID))(t)
	return src
}

// accept opens a set as a restore does.
func accept(t *testing.T, d Directory, id string, identity []byte, trust Trust) error {
	t.Helper()
	s, err := Open(t.Context(), d, "demo", id)
	if err == nil {
		_, err = s.Extract(t.Context(), identity, trust, t.TempDir())
	}
	return err
}

func TestTrust(t *testing.T) {
	to, identity := recipientOf(t)
	_, stranger := recipientOf(t)
	d, key, other := Directory(t.TempDir()), NewSigningKey(), NewSigningKey()
	set := testkit.Value(Create(t.Context(), d, signed(t, noon, to, key, identity)))(t)
	public, foreign := testkit.Value(PublicOf(key))(t), testkit.Value(PublicOf(other))(t)
	forged := testkit.Value(Create(t.Context(), d, signed(t, noon.Add(time.Hour), to, other, stranger)))(t) // the recipient is public, the identity is not
	src := source(t, "demo", noon.Add(2*time.Hour), to)
	plain := testkit.Value(Create(t.Context(), d, src))(t)
	for name, c := range map[string]struct {
		set   *Set
		trust Trust
		say   string // empty: accepted
	}{
		"the identity vouches":                {set, Trust{}, ""},
		"the store vouches":                   {set, Trust{Known: public}, ""},
		"the store knows another key":         {set, Trust{Known: foreign}, "in the store is " + foreign.Fingerprint()},
		"the operator vouches":                {set, Trust{SignedBy: public.Fingerprint()}, ""},
		"the operator vouches for another":    {set, Trust{SignedBy: foreign.Fingerprint(), Known: public}, "not by " + foreign.Fingerprint()},
		"forged, to the public recipient":     {forged, Trust{}, "nor what opens the backup vouches"},
		"forged, and the store knows the key": {forged, Trust{Known: public}, "is signed by " + foreign.Fingerprint()},
		"forged, with a fingerprint":          {forged, Trust{SignedBy: public.Fingerprint()}, "not by"},
		"forged, and trusted blindly":         {forged, Trust{Unsigned: true}, ""},
		"unsigned":                            {plain, Trust{}, "is not signed"},
		"unsigned, and the store knows":       {plain, Trust{Known: public}, "is not signed"},
		"unsigned, with a fingerprint":        {plain, Trust{SignedBy: public.Fingerprint()}, "is not signed"},
		"unsigned, taken all the same":        {plain, Trust{Unsigned: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := accept(t, d, c.set.ID, identity, c.trust)
			if c.say == "" {
				testkit.Must(t, err)
				return
			}
			testkit.Fails(t, err, fail.Refused, c.set.ID, c.say)
		})
	}
}

// fields lists the JSON paths of all fields of a value.
func fields(prefix string, v any) (all []string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			all = append(all, fields(prefix+"/"+name, v[name])...)
		}
	case []any:
		for i := range v {
			all = append(all, fields(prefix+"/"+string(rune('0'+i)), v[i])...)
		}
	default:
		all = append(all, prefix)
	}
	return all
}

// change returns JSON with a different value at a path.
func change(t *testing.T, raw []byte, path string) []byte {
	t.Helper()
	var top any
	testkit.Must(t, json.Unmarshal(raw, &top))
	var set func(v any, rest []string) any
	set = func(v any, rest []string) any {
		if len(rest) == 0 {
			switch v := v.(type) {
			case string:
				if at, err := time.Parse(time.RFC3339, v); err == nil {
					return at.Add(time.Second).Format(time.RFC3339)
				}
				return v + "x"
			case float64:
				return v + 1
			}
			return "x"
		}
		switch v := v.(type) {
		case map[string]any:
			v[rest[0]] = set(v[rest[0]], rest[1:])
		case []any:
			i := int(rest[0][0] - '0')
			v[i] = set(v[i], rest[1:])
		}
		return v
	}
	return testkit.Value(json.MarshalIndent(set(top, strings.Split(path, "/")[1:]), "", "  "))(t)
}

// TestEveryFieldIsSigned changes one manifest field or one byte of a file at a time, in a set signed with the cluster's key and in one signed by a
// machine. Every change must be refused.
func TestEveryFieldIsSigned(t *testing.T) {
	to, identity := recipientOf(t)
	key, machines := NewSigningKey(), NewSigningKey()
	own := signed(t, noon, to, key, identity)
	delegated := own
	form := testkit.Value(own.Sign.Delegate(testkit.Value(PublicOf(machines))(t), own.About, own.Operator))(t)
	delegated.Sign = testkit.Value(DelegatedSigner(machines, form))(t)
	for kind, src := range map[string]Source{"own": own, "machines'": delegated} {
		d := Directory(t.TempDir())
		s := testkit.Value(Create(t.Context(), d, src))(t)
		testkit.Must(t, accept(t, d, s.ID, identity, Trust{}))
		place := func(name string) string { return d.path(s.dir() + "/" + name) }
		manifest := testkit.Value(os.ReadFile(place(manifestFile)))(t)
		var top any
		testkit.Must(t, json.Unmarshal(manifest, &top))
		paths := fields("", top)
		if n := reflect.TypeFor[Manifest]().NumField(); len(paths) < n {
			t.Fatalf("the manifest shows %d of %d fields", len(paths), n)
		}
		tried := func(name string, content []byte) func(*testing.T) {
			return func(t *testing.T) {
				was := testkit.Value(os.ReadFile(place(name)))(t)
				testkit.Must(t, os.WriteFile(place(name), content, 0o600))
				defer func() { testkit.Must(t, os.WriteFile(place(name), was, 0o600)) }()
				err := accept(t, d, s.ID, identity, Trust{})
				if k := fail.KindOf(err); err == nil || k != fail.Refused && k != fail.Invalid || !strings.Contains(err.Error(), s.ID) && !strings.Contains(err.Error(), "demo") {
					t.Errorf("%v: %v", k, err)
				}
				if shown, err := Open(t.Context(), d, "demo", s.ID); name != setFile && err == nil {
					t.Errorf("it is shown as %+v", shown.Manifest)
				}
			}
		}
		for _, path := range paths {
			t.Run(kind+" "+path, tried(manifestFile, change(t, manifest, path)))
		}
		t.Run(kind+" an additional field", tried(manifestFile, append([]byte(`{"x":1,`), manifest[1:]...)))
		t.Run(kind+" white space", tried(manifestFile, append(slices.Clone(manifest), '\n')))
		for _, name := range []string{manifestFile, signatureFile, setFile} {
			raw := testkit.Value(os.ReadFile(place(name)))(t)
			step := max(1, len(raw)/40)
			for at := 0; at < len(raw); at += step {
				other := slices.Clone(raw)
				other[at] ^= 1
				t.Run(kind+" "+name, tried(name, other))
			}
			t.Run(kind+" more of "+name, tried(name, append(slices.Clone(raw), '\n')))
		}
		t.Run(kind+" without its signature", func(t *testing.T) {
			testkit.Must(t, os.Remove(place(signatureFile)))
			testkit.Fails(t, accept(t, d, s.ID, identity, Trust{}), fail.Refused, "is not signed")
		})
	}
}

// TestMachinesSignTheirPart: the machines' key can't sign a set whose fields differ from those that the cluster's key fixed in the delegation.
func TestMachinesSignTheirPart(t *testing.T) {
	to, identity := recipientOf(t)
	key, machines := NewSigningKey(), NewSigningKey()
	own := signed(t, noon, to, key, identity)
	form := testkit.Value(own.Sign.Delegate(testkit.Value(PublicOf(machines))(t), own.About, own.Operator))(t)
	for name, do := range map[string]func(*Source){
		"another operator's part": func(s *Source) {
			s.Operator = testkit.Value((&Operator{Record: Record{ID: "demo-0badcafe", Name: "demo"}}).Seal([]string{to}))(t)
		},
		"another authority": func(s *Source) { s.About.Authority = "mine" },
		"another reason":    func(s *Source) { s.About.Reason = "asked for by an operator" },
		"another release":   func(s *Source) { s.About.Kubernetes = "v1.2.4" },
		"another bundle":    func(s *Source) { s.About.Bundle = "sha256-2" },
		"more recipients": func(s *Source) {
			r, _ := recipientOf(t)
			s.About.Recipients = append(slices.Clone(s.About.Recipients), r)
		},
		"another cluster": func(s *Source) { s.About.ClusterID = "demo-00000000" },
	} {
		t.Run(name, func(t *testing.T) {
			src := own
			src.Sign = testkit.Value(DelegatedSigner(machines, form))(t)
			do(&src)
			d := Directory(t.TempDir())
			_, err := Create(t.Context(), d, src)
			testkit.Fails(t, err, fail.Refused, "did not permit a machine to sign")
			if left := testkit.Value(d.List(t.Context(), ""))(t); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
	_, err := DelegatedSigner(NewSigningKey(), form)
	testkit.Fails(t, err, fail.NotReady, "naupegos apply")
}

// TestProofIsSigned: a proof changed without the cluster's key does not count, and ProofProblem names its file.
func TestProofIsSigned(t *testing.T) {
	to, identity := recipientOf(t)
	d, key := Directory(t.TempDir()), NewSigningKey()
	s := testkit.Value(Create(t.Context(), d, signed(t, noon, to, key, identity)))(t)
	testkit.Must(t, s.Prove(t.Context(), key, "v1", noon, "counted"))
	path := d.path(s.dir() + "/" + proofFile)
	raw := testkit.Value(os.ReadFile(path))(t)
	if s := testkit.Value(Open(t.Context(), d, "demo", Latest))(t); !s.Proven() {
		t.Fatalf("the proof is not believed: %s", s.ProofProblem)
	}
	var top any
	testkit.Must(t, json.Unmarshal(raw, &top))
	for _, p := range fields("", top) {
		testkit.Must(t, os.WriteFile(path, change(t, raw, p), 0o600))
		if s := testkit.Value(Open(t.Context(), d, "demo", Latest))(t); s.Proven() || !strings.Contains(s.ProofProblem, proofFile) {
			t.Errorf("%s: %+v, %q", p, s.Proof, s.ProofProblem)
		}
	}
}

// TestSnapshotIsBoundedWhileWritten: a snapshot larger than its manifest states is never written to disk completely.
func TestSnapshotIsBoundedWhileWritten(t *testing.T) {
	to, identity := recipientOf(t)
	d := Directory(t.TempDir())
	src := source(t, "demo", noon, to)
	src.Snapshot = func(_ context.Context, w io.Writer) (Etcd, error) {
		_, err := w.Write(make([]byte, 4*pieceSize))
		return Etcd{}, err
	}
	s := testkit.Value(Create(t.Context(), d, src))(t)
	s.Etcd.Bytes = pieceSize
	_, err := s.Extract(t.Context(), identity, Trust{Unsigned: true}, t.TempDir())
	testkit.Fails(t, err, fail.Invalid, "larger than the 4194304 bytes")
}
