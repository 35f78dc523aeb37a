package cli

import (
	"bytes"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/cluster/nodes"
)

func TestNodeTable(t *testing.T) {
	now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	var b bytes.Buffer
	err := nodeTable(&b, []nodes.NodeRow{
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
