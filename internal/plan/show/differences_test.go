package show

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDifferences(t *testing.T) {
	saved, err := json.Marshal(JSON(sample()))
	if err != nil {
		t.Fatal(err)
	}
	if d, err := Differences(sample(), saved); err != nil || len(d) != 0 {
		t.Errorf("a plan differs from itself: %q, %v", d, err)
	}
	p := sample()
	p.Steps[0].Title, p.Steps[2].Reason, p.Steps[2].Details = "create network 10.1.9.0/24", "3 files differ", []string{"file /etc/haproxy/haproxy.cfg", "file /etc/hosts"}
	p.Steps[4].Consent, p.Steps[3].ID = "", "wait/etcd"
	p.Steps[4].Needs = []string{"wait/etcd"}
	got, err := Differences(p, saved)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`~ create network 10.1.0.0/24: its title was "create network 10.1.0.0/24", is "create network 10.1.9.0/24"`,
		`~ configure demo-gw-1: the reason was "2 files differ", is "3 files differ"`,
		`- configure demo-gw-1: reload haproxy.service`,
		`+ configure demo-gw-1: file /etc/hosts`,
		`- wait: wait for the API`,
		`~ replace demo-w-1: the consent it needs was "replace-machine", is ""`,
		`~ replace demo-w-1: its disruption was "disruptive", is "none"`,
		`~ replace demo-w-1: what it waits for was "wait/api", is "wait/etcd"`,
		`+ wait: wait for the API`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, err := Differences(p, []byte("{")); err == nil {
		t.Error("half a plan was read")
	}
}
