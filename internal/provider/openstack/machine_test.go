package openstack

import (
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestZoneOfANewMachine: Nova reports a machine's zone only once the machine runs. The zone is recorded on the machine and restricts its volumes; the
// next run, which lists everything, must find the same one.
func TestZoneOfANewMachine(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	p := fakeProvider(t, f, doc, func(o *Options) { o.Timeouts.Poll = 20 * time.Millisecond }) // so that it is glanced at, too
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t3-life-cp-1", "t3-life-w-1"} {
		if m, err := p.Machine(t.Context(), name); err != nil || m.Zone != "nova" {
			t.Errorf("%s is in zone %q: %v", name, m.Zone, err)
		}
	}
}

// clocked is a cloud with a different clock; it records the times of changes-since in requests.
type clocked struct {
	http.RoundTripper
	now   time.Time
	since []string
}

// RoundTrip adds the cloud's time to each answer.
func (c *clocked) RoundTrip(r *http.Request) (*http.Response, error) {
	if q := r.URL.Query(); q.Has("changes-since") {
		c.since = append(c.since, q.Get("changes-since"))
	}
	resp, err := c.RoundTripper.RoundTrip(r)
	if err == nil && !c.now.IsZero() {
		resp.Header.Set("Date", c.now.Format(http.TimeFormat))
	}
	return resp, err
}

// TestGlanceByTheCloudsClock: requests for changed servers use the cloud's time at the previous look; before the first look, or without a time in
// answers, they use ours.
func TestGlanceByTheCloudsClock(t *testing.T) {
	useFake(t)
	c := &clocked{RoundTripper: newFakeCloud()}
	p := fakeProvider(t, newFakeCloud(), fakeDocument(t), func(o *Options) { o.Calls.HTTPClient = &http.Client{Transport: c} })
	p.known.servers.Keep(servers.Server{ID: "built", Status: serverBuild})
	here := time.Now()
	there := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	for i, step := range []struct{ clock, min, max time.Time }{
		{time.Time{}, here.Add(-clockSkew), here},
		{there, here.Add(-clockSkew), here},
		{there.Add(time.Hour), there.Add(-10 * time.Second), there.Add(-ownClockSkew)},
		{time.Time{}, there.Add(time.Hour - 10*time.Second), there.Add(time.Hour - ownClockSkew)},
		{there, here.Add(-clockSkew), here},
	} {
		c.now = step.clock
		if news, _, err := p.glanceAtBuilding(t.Context(), here); err != nil || !news {
			t.Fatalf("look %d: news %t, %v", i, news, err)
		}
		if at := testkit.Value(time.Parse(time.RFC3339, c.since[i]))(t); at.Before(step.min.Truncate(time.Second)) || at.After(step.max) {
			t.Errorf("look %d asks for changes since %s, not one of %s to %s", i, at, step.min, step.max)
		}
	}
}
