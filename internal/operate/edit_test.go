package operate

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/cluster/wanted"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

const twoPools = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: demo}
spec:
  provider: {local: {}}
  workers:
    - name: a # first
      replicas: 3
    - {name: b, replicas: 1}
`

func TestShrink(t *testing.T) {
	doc := testkit.Value(validation.Parse("test", []byte(twoPools)))(t)
	e := &editing{rec: &store.Cluster{Name: "demo"}, doc: doc, data: []byte(twoPools)}
	testkit.Must(t, e.shrink([]string{"demo-a-1", "demo-b-1", "demo-a-3", "demo-cp-2", "demo-cp-3"}))
	after := testkit.Value(validation.Parse("edited", e.data))(t)
	if n := []int{after.Spec.ControlPlane.Replicas, after.Spec.Workers[0].Count(), after.Spec.Workers[1].Count()}; n[0] != 1 || n[1] != 1 || n[2] != 0 {
		t.Errorf("1, 1 and 0 should be left: %v", n)
	}
	if !strings.Contains(string(e.data), "- name: a # first\n      replicas: 1\n") {
		t.Errorf("the pool was not left as it was written:\n%s", e.data)
	}
}

// TestShrinkUncounted: removing a machine that the document's replica count does not include leaves the count unchanged.
func TestShrinkUncounted(t *testing.T) {
	more := strings.Replace(twoPools, "replicas: 3", "replicas: 4", 1)
	for name, c := range map[string]struct {
		decided        wanted.Decision
		cluster, edits string // documents
		left           int
	}{
		"nothing was decided":                           {"", twoPools, twoPools, 2},
		"another takes its place":                       {wanted.Replace, twoPools, twoPools, 2},
		"left over of a roll":                           {wanted.Surge, twoPools, twoPools, 3},
		"left over, and the file says more":             {wanted.Surge, twoPools, more, 4},
		"it goes already":                               {wanted.Remove, twoPools, twoPools, 3},
		"it goes already, and the file was not lowered": {wanted.Remove, twoPools, more, 3},
	} {
		rec := &store.Cluster{Name: "demo", Document: []byte(c.cluster), Facts: store.Facts{}}
		if c.decided != "" {
			testkit.Must(t, memory.NewFacts(rec, nil).SetOf(t.Context(), memory.Decision, "demo-a-4", string(c.decided)))
		}
		e := &editing{rec: rec, doc: testkit.Value(validation.Parse("test", []byte(c.edits)))(t), data: []byte(c.edits)}
		testkit.Must(t, e.shrink([]string{"demo-a-4"}))
		if n := testkit.Value(validation.Parse("edited", e.data))(t).Spec.Workers[0].Count(); n != c.left {
			t.Errorf("%s: %d machines are left, want %d", name, n, c.left)
		}
	}
}

// TestVerbs: the API's description names exactly the existing verbs; every verb plans, and takes only options that exist; invalid requests are refused.
func TestVerbs(t *testing.T) {
	field, _ := reflect.TypeFor[Asked]().FieldByName("Verb")
	if got, want := field.Tag.Get("enum"), strings.Join(Verbs(), ","); got != want {
		t.Errorf("the API names %s; there are %s", got, want)
	}
	options := map[string]bool{}
	for f := range reflect.TypeFor[Asked]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		options[name] = true
	}
	for name, v := range verbs {
		for o := range strings.FieldsSeq(v.takes) {
			if !options[o] {
				t.Errorf("%s takes %s, which is no option", name, o)
			}
		}
		if v.plan == nil {
			t.Errorf("%s plans nothing", name)
		}
	}
	for _, a := range []Asked{
		{Verb: "sing", Cluster: "demo"}, {Verb: Destroy}, {Verb: Apply}, {Verb: Destroy, Cluster: "demo", Machines: []string{"demo-a-1"}},
		{Verb: "node add", Cluster: "demo"}, {Verb: "node add", Cluster: "demo", Grow: &Grow{Count: 1, Pool: "a", ControlPlane: true}}, {Verb: "node drain", Cluster: "demo"},
		{Verb: "upgrade", Cluster: "demo"}, {Verb: "upgrade", Cluster: "demo", Upgrade: &Upgrade{Back: true, To: "v1.2.3"}}, {Verb: "certs rotate", Cluster: "demo"},
		{Verb: "certs rotate", Cluster: "demo", Rotate: &Rotate{All: true, WireGuard: true}}, {Verb: "etcd recover", Cluster: "demo"},
		{Verb: "reset", Cluster: "demo", Machine: "demo-a-1", KeepVolumes: true}, {Verb: "update", Cluster: "demo", Update: &Update{Pool: "a", Machine: "demo-a-1"}},
	} {
		_, err := a.Name()
		testkit.Fails(t, err, fail.Invalid)
	}
}

// site is a store with a cluster without machines.
type site struct{ at store.Location }

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{store.Location{Dir: t.TempDir()}}
	testkit.Must(t, os.WriteFile(filepath.Join(s.at.Dir, "agent"), []byte("#!/bin/false\n"), 0o755))
	st := testkit.Value(store.Open(t.Context(), s.at))(t)
	testkit.Value(st.CreateCluster(t.Context(), store.Cluster{Name: "demo", Provider: "local", Document: []byte(twoPools)}))(t)
	testkit.Must(t, st.Close())
	return s
}

// begin plans; with a verb it holds the lease.
func (s *site) begin(t *testing.T, a Asked, verb string) (*Begun, error) {
	t.Helper()
	return Begin(t.Context(), testkit.Value(store.Open(t.Context(), s.at))(t), a, Options{Verb: verb, ReadOnly: true, Agent: func() (string, error) { return filepath.Join(s.at.Dir, "agent"), nil }})
}

func (s *site) document(t *testing.T) string {
	t.Helper()
	st := testkit.Value(store.Open(t.Context(), s.at))(t)
	defer st.Close()
	return string(testkit.Value(st.Cluster(t.Context(), "demo"))(t).Document)
}

// commit runs the commit of a verb.
func (s *site) commit(t *testing.T, a Asked) {
	t.Helper()
	b := testkit.Value(s.begin(t, a, a.Verb))(t)
	testkit.Must(t, b.committing(nil)(t.Context()))
	testkit.Must(t, b.Close())
}

// TestAgreedEdit: "one more machine" keeps the size that was agreed to, even if a server starts over, and is refused if the document has changed
// meanwhile.
func TestAgreedEdit(t *testing.T) {
	s := newSite(t)
	asked := Asked{Verb: "node add", Cluster: "demo", Grow: &Grow{Pool: "a", Count: 1}}
	b := testkit.Value(s.begin(t, asked, ""))(t)
	agreed, digest := b.Resolved(), testkit.Value(b.Digest())(t)
	testkit.Must(t, b.Close())
	if agreed.Edited == nil || !agreed.Edited.Changed || !strings.Contains(agreed.Edited.Document, "replicas: 4") {
		t.Fatalf("%+v", agreed.Edited)
	}
	if s.document(t) != twoPools {
		t.Error("a plan has changed the document")
	}
	b = testkit.Value(s.begin(t, agreed, ""))(t)
	if again := testkit.Value(b.Digest())(t); again != digest {
		t.Error("what was agreed to has another digest than what was planned")
	}
	testkit.Must(t, b.Close())
	other := agreed
	other.Grow = &Grow{Pool: "a", Count: 2}
	b = testkit.Value(s.begin(t, other, ""))(t)
	if testkit.Value(b.Digest())(t) == digest {
		t.Error("other options have the same digest")
	}
	testkit.Must(t, b.Close())

	for range 2 { // the second time as a server that resumes
		s.commit(t, agreed)
		if !strings.Contains(s.document(t), "replicas: 4") || strings.Contains(s.document(t), "replicas: 5") {
			t.Fatal(s.document(t))
		}
	}
	s.commit(t, Asked{Verb: "node add", Cluster: "demo", Grow: &Grow{Pool: "b", Count: 1}})
	_, err := s.begin(t, agreed, "")
	testkit.Fails(t, err, fail.Conflict)
	agreed.Edited = &Edited{Base: digestOf([]byte(s.document(t))), Document: strings.Replace(twoPools, "name: demo", "name: other", 1)}
	_, err = s.begin(t, agreed, "")
	testkit.Fails(t, err, fail.Invalid)
}

// TestEditOfFile: a given document is edited instead of the stored one, and must be the cluster's.
func TestEditOfFile(t *testing.T) {
	s := newSite(t)
	asked := Asked{Verb: "node add", Cluster: "demo", Grow: &Grow{Pool: "a", Count: 1}, Document: strings.Replace(twoPools, "replicas: 3", "replicas: 7", 1), From: "demo.yaml"}
	b := testkit.Value(s.begin(t, asked, ""))(t)
	if got := b.Document.Spec.Workers[0].Count(); got != 8 {
		t.Errorf("%d machines, want 8", got)
	}
	testkit.Must(t, b.Close())
	asked.Document = strings.Replace(twoPools, "name: demo", "name: other", 1)
	_, err := s.begin(t, asked, "")
	testkit.Fails(t, err, fail.Invalid)
}

// TestThen: if more is found to do than was agreed to, upgrade is requested again, and apply continues verbs that would repeat finished work.
func TestThen(t *testing.T) {
	for verb, want := range map[string]string{"node replace": Apply, "node add": Apply, "etcd recover": Apply, "upgrade": "upgrade", Apply: Apply} {
		if got := (Asked{Verb: verb, Cluster: "demo"}).Then(); got.Verb != want || got.Cluster != "demo" {
			t.Errorf("after %s: %+v", verb, got)
		}
	}
}
