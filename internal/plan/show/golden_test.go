package show

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

	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/testkit"
)

func done(context.Context, plan.Progress) error { return nil }

// sample returns a plan with one of everything.
func sample() *plan.Plan {
	return &plan.Plan{Verb: "apply", Cluster: "demo", Warnings: []string{"no machine has an \x1b[31maddress\noutside.", "the image is old."}, Steps: []*plan.Step{
		{ID: "network", Action: plan.Create, Title: "create network 10.1.0.0/24", Subject: "cluster", Reason: "there is none", Run: done},
		{ID: "machine/demo-cp-1", Action: plan.Create, Title: "boot machine demo-cp-1", Subject: "demo-cp-1", Reason: "machine does not exist", Needs: []string{"network"}, Run: done},
		{ID: "config/demo-gw-1", Action: plan.Change, Title: "configure demo-gw-1", Subject: "demo-gw-1", Reason: "2 files differ", Run: done,
			Details: []string{"file /etc/haproxy/haproxy.cfg", "reload haproxy.service"}},
		{ID: "wait/api", Action: plan.Wait, Title: "wait for the API", Subject: "cluster", Needs: []string{"machine/demo-cp-1"}, Timeout: 90 * time.Second, Run: done},
		{ID: "replace/demo-w-1", Action: plan.Replace, Title: "replace demo-w-1", Subject: "demo-w-1", Consent: "replace-machine", Needs: []string{"wait/api"}, Run: done},
		{ID: "destroy/demo-w-2", Action: plan.Destroy, Title: "destroy \x1b[31mdemo-w-2\nand more", Subject: "demo-w-2", Consent: "delete-data", Reason: "replicas 2 → 1", Run: done},
	}}
}

// record returns a run with one of everything.
func record() plan.RunRecord {
	t0 := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	at := func(ms int) time.Time { return t0.Add(time.Duration(ms) * time.Millisecond) }
	return plan.RunRecord{
		ID: "20260504-030201-abcdef", Verb: "apply", Cluster: "demo", Holder: "root@host, pid 42", Outcome: plan.OutcomeFailed, Started: t0, Ended: at(18300),
		Steps: []plan.StepRecord{
			{ID: "network", Action: plan.Create, Title: "create network", Subject: "cluster", State: plan.Succeeded, Started: at(0), Ended: at(400)},
			{ID: "machine/demo-cp-1", Action: plan.Create, Title: "boot machine demo-cp-1", Subject: "demo-cp-1", Reason: "machine does not exist", Needs: []string{"network"},
				State: plan.Succeeded, Started: at(410), Ended: at(9000), Retries: []plan.Retry{{At: at(3000), Err: "connection refused"}, {At: at(5000), Err: `<script>alert("x")</script>`}}},
			{ID: "machine/demo-cp-2", Action: plan.Create, Title: "boot machine demo-cp-2", Subject: "demo-cp-2", Needs: []string{"network"}, State: plan.Succeeded, Started: at(410), Ended: at(7000)},
			{ID: "wait/api", Action: plan.Wait, Title: "wait for the API", Subject: "cluster", Needs: []string{"machine/demo-cp-1", "machine/demo-cp-2"}, State: plan.Failed,
				Started: at(9000), Ended: at(18300), Err: "10.1.0.10: gave up after 9.3s\nlast seen <nothing>"},
			{ID: "config/a-step-with-a-very-long-name-that-has-to-be-cut-somewhere", Action: plan.Change, Title: "configure", Subject: "x", State: plan.Stopped, Started: at(100), Ended: at(18000), Err: "stopped"},
			{ID: "live", Action: plan.Change, Title: "never ended", Subject: "x", State: plan.Running, Started: at(17000)},
			{ID: "last", Action: plan.Create, Title: "never started", Subject: "x", Needs: []string{"wait/api"}, State: plan.Skipped},
		},
	}
}

func TestWriteText(t *testing.T) {
	for name, color := range map[string]bool{"plan.txt": false, "plan.color.txt": true} {
		var b bytes.Buffer
		if err := WriteText(&b, sample(), Look{Color: color}); err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, name, b.Bytes())
	}
	var b bytes.Buffer
	if err := WriteText(&b, &plan.Plan{}, Look{Color: true}); err != nil || ansi.Strip(b.String()) != "No changes.\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
	if err := WriteText(fullDisk{}, sample(), Look{}); err == nil {
		t.Error("an error of the writer was swallowed")
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestJSON(t *testing.T) {
	for name, p := range map[string]*plan.Plan{"plan.json": sample(), "empty.json": {Verb: "apply", Cluster: "demo"}} {
		raw, err := json.MarshalIndent(JSON(p), "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		testkit.Golden(t, name, append(raw, '\n'))
	}
}

// TestWriteEvent: a plan is rendered the same in a line of its own as alone.
func TestWriteEvent(t *testing.T) {
	p := sample()
	p.Steps[0].Reason = "1 < 3"
	alone, err := json.Marshal(JSON(p))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := WriteEvent(&b, p, time.Time{}); err != nil || !bytes.Contains(b.Bytes(), append([]byte(`"plan":`), alone...)) {
		t.Errorf("%s is not in %s, %v", alone, b.Bytes(), err)
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
	for _, r := range []plan.RunRecord{{}, {Started: time.Now(), Steps: []plan.StepRecord{{ID: "a", Started: time.Now()}}}} { // must not panic
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
	if d := cmp.Diff(want, run{&r}.criticalPath()); d != "" {
		t.Error(d)
	}
}
