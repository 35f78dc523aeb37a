package agent

import (
	"os"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestFresh: listeners and free space are reported only before the first configuration.
func TestFresh(t *testing.T) {
	f := newFakeHost(t)
	for p, content := range map[string]string{
		"/proc/meminfo": "MemTotal: 1 kB\n",
		"/proc/net/tcp": "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n" +
			"   0: 00000000:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0\n",
		"/var/lib/x": "",
	} {
		write(t, f.root+p, content)
	}
	got, err := f.agent().Facts(t.Context())
	if err != nil || !got.Fresh || len(got.Volumes) == 0 || got.Volumes[0].Directory != "/var/lib" || time.Since(got.Clock).Abs() > time.Minute || len(got.Listeners) != 1 || got.Listeners[0].Port != 10250 {
		t.Errorf("a machine that nothing was configured on: %+v, %v", got, err)
	}
	testkit.Must(t, f.agent().saveState(&state{Units: map[string]stUnit{"kubelet.service": {}}}))
	if got, err = f.agent().Facts(t.Context()); err != nil || got.Fresh || got.Listeners != nil || got.Volumes != nil || got.Clock.IsZero() {
		t.Errorf("a configured machine reports %+v, %v", got, err)
	}
	testkit.Must(t, f.agent().saveState(&state{Units: map[string]stUnit{"kubelet.service": {}}, Preparing: true}))
	if got, err = f.agent().Facts(t.Context()); err != nil || !got.Fresh || len(got.Listeners) != 1 {
		t.Errorf("a machine on which packages could not be installed reports %+v, %v", got, err)
	}
	testkit.Must(t, os.Remove(f.root+"/proc/meminfo"))
	if _, err := f.agent().Facts(t.Context()); err == nil {
		t.Error("a machine without /proc has facts")
	}
}
