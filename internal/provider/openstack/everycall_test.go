package openstack

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
)

// useFake logs in to a fake cloud.
func useFake(t *testing.T) {
	t.Helper()
	for k, v := range map[string]string{
		"OS_CLOUD": "", "OS_AUTH_URL": "http://keystone/v3", "OS_USERNAME": "u", "OS_PASSWORD": "p", "OS_PROJECT_NAME": "project",
		"OS_USER_DOMAIN_NAME": "Default", "OS_PROJECT_DOMAIN_NAME": "Default", "OS_REGION_NAME": "", "OS_INTERFACE": "", "OS_CACERT": "",
	} {
		t.Setenv(k, v)
	}
}

// fakeProvider returns a new provider, as a new run of the command has one, on a fake cloud. It waits for next to nothing.
func fakeProvider(t testing.TB, f *fakeCloud, doc *v1alpha1.Cluster, change ...func(*Options)) *Provider {
	t.Helper()
	p, _ := testProvider(t, doc, "t3-life-0badc0de", append([]func(*Options){func(o *Options) {
		o.Calls.HTTPClient = &http.Client{Transport: f}
		o.Calls.Retry = cloud.Retry{Attempts: 3, Pause: time.Microsecond, Max: time.Millisecond}
		o.Timeouts.Poll = time.Microsecond
	}}, change...)...)
	return p
}

func fakeDocument(t *testing.T) *v1alpha1.Cluster {
	t.Helper()
	return testDocument(t, "t3-life", strings.ReplaceAll(smallSpec, "v1.small", "m1.small"))
}

// listing is the content of the cloud: kinds and names, marks, and dependencies.
func (f *fakeCloud) listing() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	names := map[string]string{}
	for kind, all := range f.kinds {
		for _, t := range all {
			names[t.str("id")] = kind + "/" + t.str("name") + t.str("cidr")
		}
	}
	for _, all := range f.kinds {
		for _, t := range all {
			tags, _ := t["tags"].([]any)
			line := fmt.Sprintf("%s status=%s tags=%v meta=%v", names[t.str("id")], t.str("status"), tags, t["metadata"])
			for _, k := range []string{"device_id", "port_id", "network_id", "security_group_id", "remote_group_id"} {
				line += " " + names[t.str(k)]
			}
			line += fmt.Sprint(" ", t["port_range_min"], t["remote_ip_prefix"])
			out = append(out, line)
		}
	}
	slices.Sort(out)
	return out
}

// the ways in which a call can go wrong. "dies" means that no call after it reaches the cloud either: the program was killed, or
// its network went.
type mishap struct {
	name string
	what fault0
	dies bool
}

var mishaps = []mishap{
	{"500", fault0{status: 500, text: "unexpected error"}, false},
	{"cut after", fault0{after: true}, false},
	{"dies after", fault0{after: true}, true},
}

// moreMishaps are those of which a run takes one, because unit tests must end in seconds; with -full it takes all.
var moreMishaps = []mishap{
	{"503", fault0{status: 503, text: "no server is available"}, false},
	{"429", fault0{status: 429, retryAfter: "1", text: "too many requests"}, false},
	{"409", fault0{status: 409, text: "changed concurrently"}, false},
	{"cut before", fault0{before: true}, false},
	{"dies before", fault0{before: true}, true},
}

func wantedMishaps(t *testing.T) []mishap {
	t.Helper()
	return slices.Concat(mishaps, testkit.Sample(t, 1, moreMishaps))
}

// strike makes the n-th call of the next run go wrong, and returns the context of that run.
func (f *fakeCloud) strike(n int, what fault0, dies bool) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	f.fault = func(i int, _ string) fault0 {
		switch {
		case i == n:
			if dies {
				cancel()
			}
			return what
		case i > n && dies:
			return fault0{before: true}
		}
		return fault0{}
	}
	return ctx, cancel
}

// TestEveryCallOfApply makes every single call of an apply fail in every way; one more run must have the result of an undisturbed run.
func TestEveryCallOfApply(t *testing.T) {
	useFake(t)
	doc := dnsDocument(t, "")
	made := func() *fakeCloud {
		f := newFakeCloud()
		f.addZone("example.org.")
		return f
	}
	good := made()
	if err := apply(t.Context(), fakeProvider(t, good, doc)); err != nil {
		t.Fatal(err)
	}
	want, calls := good.listing(), len(good.calls)
	t.Logf("%d calls, %d resources", calls, len(want))
	for _, m := range wantedMishaps(t) {
		t.Run(m.name, func(t *testing.T) {
			for n := 1; n <= calls; n++ {
				f := made()
				ctx, cancel := f.strike(n, m.what, m.dies)
				first := apply(ctx, fakeProvider(t, f, doc))
				cancel()
				struck := "no call"
				if len(f.calls) >= n {
					struck = f.calls[n-1]
				}
				f.fault = nil
				if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
					t.Errorf("call %d (%s): first run %v, second run: %v", n, struck, first, err)
					continue
				}
				if got := f.listing(); !slices.Equal(got, want) {
					t.Errorf("call %d (%s): after the second run (the first: %v)\n%s", n, struck, first, difference(got, want))
				}
				done := len(f.calls)
				if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
					t.Errorf("call %d (%s): third run: %v", n, struck, err)
				}
				for _, c := range f.calls[done:] {
					if !strings.HasPrefix(c, "GET ") && !strings.HasSuffix(c, "/auth/tokens") {
						t.Errorf("call %d (%s): the third run still changes something: %s", n, struck, c)
					}
				}
			}
		})
	}
}

// TestEveryCallOfDestroy does the same to a destroy: one more leaves nothing of the cluster, and everything else.
func TestEveryCallOfDestroy(t *testing.T) {
	useFake(t)
	doc := dnsDocument(t, "")
	ready := func() *fakeCloud {
		f := newFakeCloud()
		f.addRecord(f.addZone("example.org."), "A", "t3-life.example.org.", "naupegos-cluster=t3-life-0badc0de0")
		f.add("networks", thing{"name": "t3-life-0badc0de", "description": "naupegos-cluster=t3-life-0badc0de0"})
		f.add("volumes", thing{"name": "t3-life-cp-1", "status": "available", "metadata": thing{"naupegos_cluster": "t3-life"}})
		f.add("os-server-groups", thing{"name": "t3-life-0badc0de0.worker"})
		return f
	}
	want := ready().listing()
	made := func() *fakeCloud {
		f := ready()
		if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
			t.Fatal(err)
		}
		f.calls = nil
		return f
	}
	good := made()
	if err := destroy(t.Context(), fakeProvider(t, good, doc)); err != nil {
		t.Fatal(err)
	}
	calls := len(good.calls)
	t.Logf("%d calls", calls)
	if got := good.listing(); !slices.Equal(got, want) {
		t.Fatal(difference(got, want))
	}
	for _, m := range wantedMishaps(t) {
		t.Run(m.name, func(t *testing.T) {
			for n := 1; n <= calls; n++ {
				f := made()
				ctx, cancel := f.strike(n, m.what, m.dies)
				first := destroy(ctx, fakeProvider(t, f, doc))
				cancel()
				struck := "no call"
				if len(f.calls) >= n {
					struck = f.calls[n-1]
				}
				f.fault = nil
				if err := destroy(t.Context(), fakeProvider(t, f, doc)); err != nil {
					t.Errorf("call %d (%s): first run %v, second run: %v", n, struck, first, err)
				}
				if got := f.listing(); !slices.Equal(got, want) {
					t.Errorf("call %d (%s): after the second run (the first: %v)\n%s", n, struck, first, difference(got, want))
				}
			}
		})
	}
}

// difference lists surplus and missing items.
func difference(got, want []string) string {
	var b strings.Builder
	for _, g := range got {
		if !slices.Contains(want, g) {
			b.WriteString("  too much: " + g + "\n")
		}
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			b.WriteString("  missing:  " + w + "\n")
		}
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "  %d things, %d are wanted", len(got), len(want))
	}
	return b.String()
}
