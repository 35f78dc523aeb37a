// Package logs describes log lines of machines and merges them by time. The agent sends lines, and the operator's command merges the lines of several
// machines.
//
// It reads no logs and knows no machines.
package logs

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Request selects lines of one machine.
type Request struct {
	Units     []string  `json:"units,omitempty"`     // systemd units, as patterns of journalctl; without units and pods: the whole journal and the static pods
	Pod       string    `json:"pod,omitempty"`       // [NAMESPACE/]NAME of pods; a prefix of the name suffices
	Container string    `json:"container,omitempty"` // container of the selected pods, or of any pod
	Previous  bool      `json:"previous,omitempty"`  // logs of the containers that ran before the present ones
	Since     time.Time `json:"since,omitzero"`
	Tail      int       `json:"tail,omitempty"` // return only the last lines, at most this many; 0: all
	Follow    bool      `json:"follow,omitempty"`
	Grep      string    `json:"grep,omitempty"` // Go regular expression that lines must match
}

// Pods reports whether containers' logs are wanted.
func (r *Request) Pods() bool { return r.Pod != "" || r.Container != "" || len(r.Units) == 0 }

// Journal reports whether the journal is wanted.
func (r *Request) Journal() bool {
	return !r.Previous && (len(r.Units) > 0 || r.Pod == "" && r.Container == "")
}

// Line is one line of a log.
type Line struct {
	Time      time.Time `json:"time,omitzero"`
	Machine   string    `json:"machine,omitempty"`
	Unit      string    `json:"unit,omitempty"`      // of a journal line: kubelet.service, or another identifier such as kernel
	Namespace string    `json:"namespace,omitempty"` // of a container's line, like the next two fields
	Pod       string    `json:"pod,omitempty"`
	Container string    `json:"container,omitempty"`
	Text      string    `json:"text"`

	// Present marks the end of the existing lines: with Follow, an agent sends one such line before the new ones.
	Present bool `json:"present,omitempty"`
}

// Parse reads a line as an agent sends it.
func Parse(data []byte) (l Line, err error) {
	if err := json.Unmarshal(data, &l); err != nil {
		return l, fail.Wrap(fail.Internal, err, "read a line of the log")
	}
	return l, nil
}

// Source returns a short name of the line's origin.
func (l *Line) Source() string {
	if l.Pod == "" {
		return l.Unit
	}
	return fmt.Sprintf("%s/%s", l.Pod, l.Container)
}
