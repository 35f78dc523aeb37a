package charts

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/kube/figures"
)

func known(v float64) *float64 { return &v }

// given returns figures with one chart, each of whose series has the same values.
func given(unit figures.Unit, id string, series int, values ...*float64) *figures.Figures {
	to := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	c := figures.Chart{ID: id, Group: figures.GroupMachines, Title: "CPU", Unit: unit}
	for i := range series {
		c.Series = append(c.Series, figures.Series{Name: fmt.Sprint("m", i), Values: values})
	}
	return &figures.Figures{Range: "1h", From: to.Add(-time.Duration(len(values)-1) * time.Minute), To: to, Step: 60, Charts: []figures.Chart{c}}
}

// TestDrawing: a line is within its frame, has gaps where values are unknown, and single values are visible.
func TestDrawing(t *testing.T) {
	d := Of(given(figures.Ratio, "cpu", 1, known(0), known(0.5), nil, known(1), nil))[0].Charts[0]
	if want := "M58,148L148,78M328,8L328,8"; d.Lines[0].Path != want || d.Max != 1 {
		t.Errorf("%s up to %v, want %s", d.Lines[0].Path, d.Max, want)
	}
	if got := fmt.Sprint(d.Rows, d.Levels, d.Points, d.From, d.To); got != "[{0 m0 100 % 0 % 100 %}] [{148 0 %} {78 50 %} {8 100 %}] 4 1796046960 1796047200" {
		t.Error(got)
	}
	if d.About != "CPU. m0: now 100 %, between 0 % and 100 %." {
		t.Error(d.About)
	}
	if all := d.Times; all[0].Text != "13:56" || all[4].Text != "14:00" || all[0].At != Left || all[4].At != Right {
		t.Errorf("%+v", all)
	}
}

// TestManyLines: of many lines the highest are drawn, and the note counts the others.
func TestManyLines(t *testing.T) {
	f := given(figures.Requests, "requests", 20, known(1))
	for i := range f.Charts[0].Series {
		f.Charts[0].Series[i].Values = []*float64{known(float64(i % 10))}
	}
	d := Of(f)[0].Charts[0]
	var names []string
	for _, r := range d.Rows {
		names = append(names, r.Name)
	}
	if got := strings.Join(names, " "); got != "m7 m8 m9 m17 m18 m19" || !strings.Contains(d.Note, "14 others") {
		t.Errorf("%s; %s", got, d.Note)
	}
	f.Charts[0].Series = f.Charts[0].Series[:7]
	if d := Of(f)[0].Charts[0]; !strings.HasSuffix(d.Note, "; 1 other is lower.") {
		t.Error(d.Note)
	}
}

// TestCeilings: the top of a drawing is a round value above all others, whatever they are.
func TestCeilings(t *testing.T) {
	for _, c := range []struct {
		unit      figures.Unit
		top, want float64
	}{{figures.Requests, 0, 1}, {figures.Requests, 3, 4}, {figures.Requests, 87, 100}, {figures.Seconds, 0.0052, 0.006}, {figures.Ratio, 0, 0.01}, {figures.Bytes, 3 << 20, 4 << 20}, {figures.Requests, 1e300, 1e300}, {figures.Seconds, 0, 0.001}} {
		if got := ceiling(c.unit, c.top, false); math.Abs(got-c.want) > c.want/1e9 || got < c.top {
			t.Errorf("%s %v: %v, want %v", c.unit, c.top, got, c.want)
		}
	}
	for _, v := range []float64{-5, 1e308, 5e-324} {
		d := Of(given(figures.Bytes, "x", 1, known(v), known(1)))[0].Charts[0]
		if strings.Contains(d.Lines[0].Path, "NaN") || strings.Contains(d.Lines[0].Path, "Inf") || strings.Contains(d.Lines[0].Path, "e+") {
			t.Errorf("%v: %s", v, d.Lines[0].Path)
		}
	}
}

func TestText(t *testing.T) {
	for want, got := range map[string]string{"34 %": Text(figures.Ratio, 0.344), "0.51 %": Text(figures.Ratio, 0.00512), "0 %": Text(figures.Ratio, 0), "1.5 GiB": Text(figures.Bytes, 1.5*(1<<30)), "12.3 MB/s": Text(figures.ByteRate, 12.34e6),
		"5.2 ms": Text(figures.Seconds, 0.0052), "1.5 s": Text(figures.Seconds, 1.5), "12 /s": Text(figures.Requests, 12), "7": Text(figures.Instances, 7)} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestMachines: each machine has a cell for each figure of machines, also if one is unknown.
func TestMachines(t *testing.T) {
	f := given(figures.Ratio, "cpu", 2, known(0.5))
	f.Charts = append(f.Charts, figures.Chart{Group: figures.GroupMachines, Title: "Memory", Unit: figures.Ratio, Series: []figures.Series{{Name: "m1", Values: []*float64{known(0.25)}}, {Name: "m9", Values: []*float64{known(1)}}}},
		figures.Chart{Group: figures.GroupPods, Title: "Pods", Series: []figures.Series{{Name: "Running"}}})
	if got, want := fmt.Sprint(Machines(f)), "[{m0 [{CPU 50 % 50 %} {  }]} {m1 [{CPU 50 % 50 %} {Memory 25 % 25 %}]} {m9 [{  } {Memory 100 % 100 %}]}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestSpan(t *testing.T) {
	f := given(figures.Ratio, "cpu", 1, known(1))
	for name, want := range map[string]string{"1h": "The last hour, until 2026-11-30 14:00 UTC, a value every minute", "24h": "The last 24 hours, until 2026-11-30 14:00 UTC, a value every 24 minutes",
		"7d": "The last 7 days, until 2026-11-30 14:00 UTC, a value every 2 h 48 min", "1y": ""} {
		if f.Range = name; Span(f) != want {
			t.Errorf("%s: %s", name, Span(f))
		}
	}
}
