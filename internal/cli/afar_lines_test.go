package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLinesOfJobsAreInert: what a server passes on of machines and clusters gives this terminal no orders.
func TestLinesOfJobsAreInert(t *testing.T) {
	const foreign = "m says \x1b]0;owned\x07\x1b[2Jhello\u202e there\r"
	for event, progress := range map[string]string{"say": "plain", "note": "json"} {
		var out bytes.Buffer
		v := &afar{verb: &verb{flags: &runFlags{}}, app: &App{Err: &out}}
		testkit.Must(t, v.flags.progress.Set(progress))
		w := &watched{v: v}
		testkit.Must(t, w.line(testkit.Value(json.Marshal(map[string]string{"event": event, "text": foreign}))(t)))
		raw := []byte(`{"event":"` + event + `","text":"` + "m says \u009b2J\u202ehello" + `"}`) // raw, as a hostile writer sends it
		testkit.Must(t, w.line(raw))
		if text := out.String(); strings.ContainsAny(text, "\x1b\x07\r\u202e\u009b") || strings.Count(text, "hello") != 2 || strings.Count(text, "\n") != 2 {
			t.Errorf("%s: the terminal gets %q", event, text)
		}
	}
}
