package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/store"
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
	doc, err := v1alpha1.Parse("test", []byte(twoPools))
	if err != nil {
		t.Fatal(err)
	}
	got, err := (&nodeChange{}).shrink(doc, []byte(twoPools), []string{"demo-a-1", "demo-b-1", "demo-a-3", "demo-cp-2", "demo-cp-3"})
	if err != nil {
		t.Fatal(err)
	}
	after, err := v1alpha1.Parse("edited", got)
	if err != nil {
		t.Fatalf("%v\n%s", err, got)
	}
	if n := []int{after.Spec.ControlPlane.Replicas, after.Spec.Workers[0].Count(), after.Spec.Workers[1].Count()}; n[0] != 1 || n[1] != 1 || n[2] != 0 {
		t.Errorf("1, 1 and 0 should be left: %v", n)
	}
	if !strings.Contains(string(got), "- name: a # first\n      replicas: 1\n") {
		t.Errorf("the pool was not left as it was written:\n%s", got)
	}
}

func TestNodeChangeReads(t *testing.T) {
	file := filepath.Join(t.TempDir(), "demo.yaml")
	if err := os.WriteFile(file, []byte(strings.Replace(twoPools, "replicas: 3", "replicas: 7", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		file string
		want int
	}{{"", 4}, {file, 8}} {
		n := &nodeChange{name: "demo", file: c.file}
		n.edit = func(doc *v1alpha1.Cluster, data []byte) ([]byte, error) {
			g, err := groupToGrow(doc, "a", false)
			if err != nil {
				return nil, err
			}
			return (&nodeChange{}).resize(doc, data, g, 1)
		}
		doc, err := n.read(&store.Cluster{Document: []byte(twoPools)})
		if err != nil {
			t.Fatal(err)
		}
		if got := doc.Spec.Workers[0].Count(); got != c.want {
			t.Errorf("-f %q: %d machines, want %d", c.file, got, c.want)
		}
	}
	if data, err := os.ReadFile(file); err != nil || !strings.Contains(string(data), "replicas: 7") {
		t.Errorf("the file was changed before anybody agreed: %s, %v", data, err)
	}
}

func TestNodeTable(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	var b bytes.Buffer
	err := nodeTable(&b, []cluster.NodeRow{
		{Name: "demo-gw-1", Role: "gateway", Address: "10.0.0.11", State: "running"},
		{Name: "demo-a-1", Role: "worker", Pool: "a", Address: "10.0.0.101", State: "stopped", Node: "not ready: KubeletDown: gone, cordoned", Version: "v1.36.3", Created: now.Add(-3 * time.Hour)},
		{Name: "elsewhere", Node: "Ready", Version: "v1.36.3", Created: now.Add(-100 * 24 * time.Hour)},
	}, now)
	if err != nil {
		t.Fatal(err)
	}
	want := `NAME       ROLE     POOL  ADDRESS     STATE    NODE                                    VERSION  AGE
demo-gw-1  gateway  -     10.0.0.11   running  -                                       -        -
demo-a-1   worker   a     10.0.0.101  stopped  not ready: KubeletDown: gone, cordoned  v1.36.3  3h
elsewhere  -        -     -           -        Ready                                   v1.36.3  100d
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}

func TestShortAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 119 * time.Second: "119s", 2 * time.Minute: "2m", 119 * time.Minute: "119m", 2 * time.Hour: "2h", 47 * time.Hour: "47h", 48 * time.Hour: "2d",
	} {
		if got := shortAge(d); got != want {
			t.Errorf("%s is %s, want %s", d, got, want)
		}
	}
}
