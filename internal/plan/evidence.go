package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/plan/words"
)

// Evidence holds observations of a cluster made while a run changed it.
type Evidence struct {
	Requests  int    `json:"requests"`                // API requests sent through the endpoint by the run's own probe
	Failed    int    `json:"failed"`                  // requests without an answer, or answered with an error
	LongestMS int64  `json:"longestMilliseconds"`     // longest time until a request succeeded, including failed requests before it
	Restarted *int   `json:"podsRestarted,omitempty"` // pods whose containers restarted; nil: unknown
	Backup    string `json:"backup,omitempty"`        // ID of the backup that the run made
	Proven    bool   `json:"backupProven,omitempty"`  // a rehearsal has proven the backup
	Unknown   string `json:"unknown,omitempty"`       // why some of these observations are missing
}

// Add adds the evidence of a later run.
func (e *Evidence) Add(later *Evidence) *Evidence {
	switch {
	case later == nil:
		return e
	case e == nil:
		sum := *later
		return &sum
	}
	sum := *e
	sum.Requests, sum.Failed, sum.LongestMS = e.Requests+later.Requests, e.Failed+later.Failed, max(e.LongestMS, later.LongestMS)
	if sum.Restarted = later.Restarted; e.Restarted != nil && later.Restarted != nil {
		both := *e.Restarted + *later.Restarted
		sum.Restarted = &both
	} else if later.Restarted == nil {
		sum.Restarted = e.Restarted
	}
	if later.Backup != "" {
		sum.Backup, sum.Proven = later.Backup, later.Proven
	}
	if sum.Unknown == "" {
		sum.Unknown = later.Unknown
	}
	return &sum
}

// String renders the evidence on one line: "0 of 5,312 API requests failed, longest 212 ms, 0 pods restarted; backup B not rehearsed".
func (e *Evidence) String() string {
	var out []string
	if e.Requests > 0 {
		out = append(out, fmt.Sprintf("%s of %s failed, longest %s", thousands(e.Failed), counted(e.Requests, "API request", "API requests"), millis(e.LongestMS)))
	}
	if e.Restarted != nil {
		out = append(out, counted(*e.Restarted, "pod", "pods")+" restarted")
	}
	line := strings.Join(out, ", ")
	if e.Backup != "" {
		proof := "not rehearsed"
		if e.Proven {
			proof = "proven"
		}
		line = joined(line, "backup "+words.Line(e.Backup)+" "+proof)
	}
	if e.Unknown != "" {
		line = joined(line, "not known: "+words.Line(e.Unknown))
	}
	return line
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// thousands separates groups of three digits by commas.
func thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func millis(ms int64) string {
	if ms < 10_000 {
		return fmt.Sprintf("%d ms", ms)
	}
	return words.Duration(time.Duration(ms) * time.Millisecond)
}
