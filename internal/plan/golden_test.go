package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"github.com/naupegos/naupegos/internal/testkit"
)

func done(context.Context, Progress) error { return nil }

// sample is a plan with one of everything.
func sample() *Plan {
	return &Plan{Verb: "apply", Cluster: "demo", Warnings: []string{"no machine has an \x1b[31maddress\noutside.", "the image is old."}, Steps: []*Step{
		{ID: "network", Action: Create, Title: "create network 10.1.0.0/24", Subject: "cluster", Reason: "there is none", Run: done},
		{ID: "machine/demo-cp-1", Action: Create, Title: "boot machine demo-cp-1", Subject: "demo-cp-1", Reason: "machine does not exist", Needs: []string{"network"}, Run: done},
		{ID: "config/demo-gw-1", Action: Change, Title: "configure demo-gw-1", Subject: "demo-gw-1", Reason: "2 files differ", Run: done,
			Details: []string{"file /etc/haproxy/haproxy.cfg", "reload haproxy.service"}},
		{ID: "wait/api", Action: Wait, Title: "wait for the API", Subject: "cluster", Needs: []string{"machine/demo-cp-1"}, Timeout: 90 * time.Second, Run: done},
		{ID: "replace/demo-w-1", Action: Replace, Title: "replace demo-w-1", Subject: "demo-w-1", Consent: "replace-machine", Needs: []string{"wait/api"}, Run: done},
		{ID: "destroy/demo-w-2", Action: Destroy, Title: "destroy \x1b[31mdemo-w-2\nand more", Subject: "demo-w-2", Consent: "delete-data", Reason: "replicas 2 → 1", Run: done},
	}}
}

// record is a run with one of everything.
func record() RunRecord {
	t0 := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	return RunRecord{
		ID: "20260504-030201-abcdef", Verb: "apply", Cluster: "demo", Holder: "root@host, pid 42", Outcome: OutcomeFailed, Started: t0, Ended: at(18300),
		Steps: []StepRecord{
			{ID: "network", Action: Create, Title: "create network", Subject: "cluster", State: Succeeded, Started: at(0), Ended: at(400)},
			{ID: "machine/demo-cp-1", Action: Create, Title: "boot machine demo-cp-1", Subject: "demo-cp-1", Reason: "machine does not exist", Needs: []string{"network"},
				State: Succeeded, Started: at(410), Ended: at(9000), Retries: []Retry{{at(3000), "connection refused"}, {at(5000), `<script>alert("x")</script>`}}},
			{ID: "machine/demo-cp-2", Action: Create, Title: "boot machine demo-cp-2", Subject: "demo-cp-2", Needs: []string{"network"}, State: Succeeded, Started: at(410), Ended: at(7000)},
			{ID: "wait/api", Action: Wait, Title: "wait for the API", Subject: "cluster", Needs: []string{"machine/demo-cp-1", "machine/demo-cp-2"}, State: Failed,
				Started: at(9000), Ended: at(18300), Err: "10.1.0.10: gave up after 9.3s\nlast seen <nothing>"},
			{ID: "config/a-step-with-a-very-long-name-that-has-to-be-cut-somewhere", Action: Change, Title: "configure", Subject: "x", State: Stopped, Started: at(100), Ended: at(18000), Err: "stopped"},
			{ID: "live", Action: Change, Title: "never ended", Subject: "x", State: Running, Started: at(17000)},
			{ID: "last", Action: Create, Title: "never started", Subject: "x", Needs: []string{"wait/api"}, State: Skipped},
		},
	}
}

func TestWriteText(t *testing.T) {
	for name, color := range map[string]bool{"plan.txt": false, "plan.color.txt": true} {
		var b bytes.Buffer
		if err := sample().WriteText(&b, color); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, name, b.Bytes())
	}
	var b bytes.Buffer
	if err := (&Plan{}).WriteText(&b, true); err != nil || ansi.Strip(b.String()) != "No changes.\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	if err := sample().WriteText(fullDisk{}, false); err == nil {
		t.Error("an error of the writer was swallowed")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestMarshalJSON(t *testing.T) {
	for name, p := range map[string]*Plan{"plan.json": sample(), "empty.json": {Verb: "apply", Cluster: "demo"}} {
		raw, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, name, append(raw, '\n'))
	}
}

func TestWriteTimeline(t *testing.T) {
	for name, width := range map[string]int{"timeline.100.txt": 100, "timeline.60.txt": 60} {
		var b bytes.Buffer
		if err := WriteTimeline(&b, record(), width); err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(b.String()) {
			if w := ansi.StringWidth(strings.TrimSuffix(l, "\n")); w > width {
				t.Errorf("%d columns wide: %q", w, l)
			}
		}
		testkit.Golden(t, name, b.Bytes())
	}
	for _, r := range []RunRecord{{}, {Started: time.Now(), Steps: []StepRecord{{ID: "a", Started: time.Now()}}}} { // must not panic
		if err := errors.Join(WriteTimeline(io.Discard, r, 0), WriteHTML(io.Discard, r), WriteTimeline(io.Discard, r, 500)); err != nil {
			t.Error(err)
		}
	}
}

func TestWriteHTML(t *testing.T) {
	var b bytes.Buffer
	if err := WriteHTML(&b, record()); err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "timeline.html", b.Bytes())
	page := b.String()
	for _, bad := range []string{"<script", "http://", "https://", "ZgotmplZ", "<nothing>"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, good := range []string{`class="row succeeded critical"`, `class="row failed critical"`, "prefers-color-scheme: dark", "connection refused", "root@host, pid 42", "1 not started"} {
		if !strings.Contains(page, good) {
			t.Errorf("the page lacks %q", good)
		}
	}
	svg := page[strings.Index(page, "<svg") : strings.Index(page, "</svg>")+len("</svg>")]
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestCriticalPath(t *testing.T) {
	r := record()
	r.Steps = r.Steps[:4]
	want := map[string]bool{"network": true, "machine/demo-cp-1": true, "wait/api": true}
	if d := cmp.Diff(want, r.criticalPath()); d != "" {
		t.Error(d)
	}
}
