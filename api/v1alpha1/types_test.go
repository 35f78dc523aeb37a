package v1alpha1

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/internal/fail"
)

// TestTypes checks the requirements of the code that reads the types: every key has the same name in YAML and JSON, a comment, and valid tags;
// numbers have limits.
func TestTypes(t *testing.T) {
	docs, err := Comments()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	strict.Walk(reflect.TypeFor[Cluster](), "", func(path string, parent reflect.Type, f strict.Field) {
		count++
		sf := parent.Field(f.Index)
		y, _, _ := strings.Cut(sf.Tag.Get("yaml"), ",")
		if f.Key == "" || f.Key != y {
			t.Errorf("%s: called %q in JSON, %q in YAML", path, f.Key, y)
		}
		if d := docs[parent.Name()+"."+f.Name]; !strings.HasSuffix(d, ".") {
			t.Errorf("%s: comment %q is missing or no sentence", path, d)
		}
		e := f.Type
		if e.Kind() == reflect.Pointer {
			e = e.Elem()
		}
		if e.Kind() == reflect.Int && (f.Min == nil || f.Max == nil) {
			t.Errorf("%s: a number without limits", path)
		}
		if e.Kind() == reflect.Int && f.Type.Kind() == reflect.Int && *f.Min < 1 {
			t.Errorf("%s: 0 can't be told from left out", path)
		}
		if e.Kind() == reflect.Slice && f.MaxItems == 0 {
			t.Errorf("%s: a list without limit", path)
		}
		if f.Default != "" && f.Required {
			t.Errorf("%s: required, yet has a default", path)
		}
		if f.Default != "" && e.Kind() != reflect.Slice {
			setText(reflect.New(e).Elem(), f.Default) // panics where the tag is wrong
		}
	})
	if count < 50 {
		t.Errorf("only %d fields", count)
	}
}

func TestDefaultVersion(t *testing.T) {
	c := &Cluster{}
	c.Default()
	if c.Spec.Kubernetes.Version != LatestKubernetes {
		t.Errorf("the default is %s; struct tag and contract (%s) differ", c.Spec.Kubernetes.Version, LatestKubernetes)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{
		5 * time.Minute: "5m", 90 * time.Second: "1m30s", time.Hour: "1h", 90 * time.Minute: "1h30m", 24 * time.Hour: "24h",
		10 * time.Second: "10s", 1500 * time.Millisecond: "1.5s", time.Hour + time.Second: "1h0m1s", 100 * time.Minute: "1h40m",
	} {
		got, err := Duration{Duration: d}.MarshalText()
		if err != nil || string(got) != want {
			t.Errorf("%v: %s (%v), want %s", d, got, err, want)
		}
		var back Duration
		if err := back.UnmarshalText(got); err != nil || back.Duration != d {
			t.Errorf("%s reads as %v (%v)", got, back, err)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"replicas", "labels", "name", "taints", "etcd", "cni"}
	for s, want := range map[string]string{
		"replcas": "replicas", "Replicas": "replicas", "replica": "replicas", "lables": "labels", "nmae": "name", "ectd": "etcd",
		"x": "", "zzz": "", "cpu": "cni", "": "", strings.Repeat("a", 100): "", "podCIDR": "",
	} {
		if got := fail.Nearest(s, known); got != want {
			t.Errorf("%q: %q, want %q", s, got, want)
		}
	}
}
