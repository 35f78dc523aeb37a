package watch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestEventsFollow: each event is printed once, as one JSON object a line, and a failed look does not end the command.
func TestEventsFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	at := time.Now()
	item := func(id, text string) operate.Happened {
		return operate.Happened{ID: id, At: at, Source: "kubernetes", Object: "Pod a/b", Reason: "Started", Text: text, Count: 1}
	}
	var out, stderr bytes.Buffer
	h := Host{Out: &out, Screen: func() Screen { return Screen{Width: 100} }, Events: func(context.Context, string, operate.EventsOf) (*operate.EventList, error) {
		looks++
		switch looks {
		case 1:
			return &operate.EventList{Items: []operate.Happened{item("1", "one \x1b]0;x\a\u202e")}}, nil
		case 2:
			return nil, fmt.Errorf("cut off")
		}
		cancel()
		return &operate.EventList{Items: []operate.Happened{item("1", "one"), item("2", "two")}}, nil
	}}
	f := &eventsFlags{since: time.Hour}
	testkit.Must(t, f.out.Set("json"))
	if err := h.printNew([]operate.Happened{item("0", "zero")}, map[string]time.Time{}, f); err != nil {
		t.Fatal(err)
	}
	_ = h.follow(ctx, &stderr, "demo", f) // ends with its context
	var texts []string
	for line := range strings.Lines(out.String()) {
		var v struct {
			SchemaVersion int    `json:"schemaVersion"`
			Text          string `json:"text"`
		}
		testkit.Must(t, json.Unmarshal([]byte(line), &v))
		if v.SchemaVersion == 0 {
			t.Errorf("no schemaVersion in %s", line)
		}
		texts = append(texts, strings.Fields(v.Text)[0])
	}
	if got := strings.Join(texts, " "); !strings.HasPrefix(got, "zero one") || strings.Count(got, "one") != 1 {
		t.Errorf("printed was %q", got)
	}
	if strings.ContainsAny(out.String(), "\x1b\a\u202e") {
		t.Errorf("%q", out.String())
	}
	if !strings.Contains(stderr.String(), "cut off") {
		t.Errorf("standard error has %q", stderr.String())
	}
}

// TestEventsAreInert: text from a cluster can't control the terminal, and lines fit.
func TestEventsAreInert(t *testing.T) {
	now := time.Now()
	items := []operate.Happened{{ID: "1", At: now.Add(-time.Minute), Warning: true, Object: "Pod a/\x1b[2Jb", Reason: "Back\nOff", Text: "\x1b]0;x\aback-off restarting failed container, which is a long story", Count: 7}}
	for _, width := range []int{60, 200} {
		var b bytes.Buffer
		testkit.Must(t, Screen{Width: width}.Events(&b, items, now))
		if strings.ContainsAny(b.String(), "\x1b\a") || !strings.Contains(b.String(), "7") {
			t.Errorf("%q", b.String())
		}
		checkFits(t, b.String(), width)
	}
}

// describedMachine is a machine with content in every section.
func describedMachine(now time.Time) *operate.Description {
	st := drifting()
	m := st.Machines[0]
	return &operate.Description{Subject: "demo-cp-1", Status: st, Machine: &m,
		Nodes: []kube.NodeLoad{{Node: "demo-cp-1", OS: "Debian", Kernel: "6.12", Runtime: "containerd://2.2", Pods: 9, PodsReady: 8, PodLimit: 110, CPU: 2000, CPUAsked: 850, Memory: 4 << 30, MemoryAsked: 1 << 30,
			Conditions: []kube.Condition{{Type: "Ready", Status: "True", Reason: "KubeletReady", Text: "kubelet is posting ready status", Since: now.Add(-3 * time.Hour)}, {Type: "DiskPressure", Status: "True", Since: now.Add(-time.Minute)}},
			Labels:     map[string]string{"tier": "web"}, Taints: []string{"gpu=a:NoSchedule"}}},
		Units:        &machine.Life{Since: map[string]time.Time{"kubelet.service": now.Add(-time.Hour)}, Down: map[string]string{"containerd.service": "failed"}},
		Certificates: []pki.CertInfo{{Name: "demo-cp-1/apiserver", Authority: "kubernetes-ca", NotAfter: now.Add(240 * time.Hour)}},
		Runs:         []operate.RunLine{{ID: "r1", Verb: "apply", By: "root@vm", Outcome: "succeeded", Started: now.Add(-time.Hour), Ended: now.Add(-59 * time.Minute), Steps: 3}},
		Events:       []kube.Event{{At: now.Add(-time.Minute), Warning: true, Object: "Pod a/b", Reason: "BackOff", Text: "back-off", Count: 3}},
		Problems:     []string{"demo-cp-2: does not answer"}}
}

// TestDescribe: a machine's page has every section, and fits the screen.
func TestDescribe(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
	for _, width := range []int{60, 100, 200} {
		var b bytes.Buffer
		testkit.Must(t, Screen{Width: width}.Describe(&b, describedMachine(now), now))
		testkit.Golden(t, fmt.Sprintf("describe-%d.txt", width), b.String())
		for _, want := range []string{"DiskPressure", "containerd.service", "demo-cp-1/apiserver", "apply", "BackOff", "does not answer", "tier=web", "8 ready"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%q is missing at %d columns", want, width)
			}
		}
		for line := range strings.Lines(b.String()) {
			if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
				t.Errorf("at %d columns a line has %d: %s", width, n, line)
			}
		}
	}
}
