// Package delta describes what one step changes: the lines of a file, the state of a unit, or the old and new value of a field.
//
// It knows neither plans nor machines. It never holds a secret: the creator of a Delta masks the content.
package delta

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Masked replaces both values of a secret that changes.
const Masked = "(secret, changed)"

// None represents a value that does not exist.
const None = "(none)"

// Delta is one difference between the existing and the wanted state.
type Delta struct {
	Kind   string `json:"kind"`             // "file", "unit", "sysctl", "package", "label", "taint", "object", "field", …
	Name   string `json:"name"`             // path, unit, key, or "DaemonSet kube-system/kube-proxy"
	Field  string `json:"field,omitempty"`  // of an object: the differing field
	Action string `json:"action"`           // "create", "update", "remove", "restart", …
	Why    string `json:"why,omitempty"`    // for people: "content differs"
	Secret bool   `json:"secret,omitempty"` // neither the old nor the new content is shown

	Old *string `json:"old,omitempty"` // previous value; absent: none
	New *string `json:"new,omitempty"`

	From  *Content `json:"from,omitempty"`  // of a file: the existing content; absent: no file, or unknown
	To    *Content `json:"to,omitempty"`    // of a file: the wanted content; absent: no file
	Hunks []Hunk   `json:"hunks,omitempty"` // the differing lines, with some context
	Cut   int      `json:"cut,omitempty"`   // number of differing lines that hunks leaves out

	// Modified is the time of the last change of a file on a machine, by the machine's clock.
	Modified time.Time `json:"modified,omitzero"`
	ByHand   bool      `json:"byHand,omitempty"` // Modified is later than the last run on the cluster
}

// Content describes a file without its text.
type Content struct {
	Mode   string `json:"mode,omitempty"`   // "0644"
	Size   int64  `json:"size,omitempty"`   // bytes; only of content that is not shown
	Digest string `json:"digest,omitempty"` // "sha256:…"; only of content that is not shown
}

// Value returns a delta of one value. nil means no value; an empty text is a value.
func Value(kind, name string, from, to *string) Delta {
	d := Delta{Kind: kind, Name: name, Action: "update", Old: from, New: to}
	switch {
	case from == nil:
		d.Action = "create"
	case to == nil:
		d.Action = "remove"
	}
	return d
}

// IsValue reports whether the delta is of one value. Values are short enough to be shown always.
func (d *Delta) IsValue() bool { return len(d.Hunks) == 0 && (d.Old != nil || d.New != nil) }

// Detail describes the change in one line.
func (d *Delta) Detail() string {
	switch {
	case d.Kind == "sysctl" && d.Why != "": // the agent's own words suffice
	case d.Kind == "object":
		what := d.Action + " " + d.Name
		if d.Field != "" {
			what = d.Name + " " + d.Field
		}
		if values := d.values(); values != "" {
			what += ": " + values
		}
		return what
	case d.IsValue():
		what := d.Kind + " " + d.Name
		if d.Kind == "field" {
			what = d.Name
		}
		return what + ": " + d.values()
	}
	line := d.Action + " " + d.Kind + " " + d.Name
	if d.Why != "" {
		line += ": " + d.Why
	}
	return line
}

// values returns "old -> new", or "" if there are no values.
func (d *Delta) values() string {
	switch {
	case d.Secret:
		return Masked
	case !d.IsValue():
		return ""
	}
	return orNone(d.Old) + " -> " + orNone(d.New)
}

func orNone(v *string) string {
	switch {
	case v == nil:
		return None
	case *v == "":
		return `""`
	}
	return *v
}

// Line returns Detail and, in numbers, the change of the content: how many lines change, or the sizes of contents that are not shown.
func (d *Delta) Line() string {
	line := d.Detail()
	if extra := d.extra(); extra != "" {
		line += ", " + extra
	}
	if d.ByHand {
		line += fmt.Sprintf("; changed on the machine at %s (mtime), not by a run", d.Modified.Local().Format(time.TimeOnly))
	}
	return line
}

func (d *Delta) extra() string {
	if d.Secret {
		if d.Kind == "object" || d.IsValue() {
			return "" // Detail already says it
		}
		return Masked
	}
	if added, removed := d.Counts(); added+removed > 0 {
		return fmt.Sprintf("+%d -%d lines", added, removed)
	}
	if (d.From == nil || d.From.Digest == "") && (d.To == nil || d.To.Digest == "") {
		return ""
	}
	return d.From.words() + " -> " + d.To.words()
}

func (c *Content) words() string {
	if c == nil {
		return None
	}
	digest := c.Digest
	if len(digest) > 19 {
		digest = digest[:19] + "…"
	}
	return strings.TrimSpace(fmt.Sprintf("%d bytes %s", c.Size, digest))
}

// Counts returns how many lines are added and removed.
func (d *Delta) Counts() (added, removed int) {
	for _, h := range d.Hunks {
		for _, l := range h.Lines {
			switch l[0] {
			case '+':
				added++
			case '-':
				removed++
			}
		}
	}
	return added, removed
}

// Same reports whether two deltas show the same change, regardless of when a file was modified.
func (d *Delta) Same(o *Delta) bool {
	value := func(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	content := func(a, b *Content) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }
	return d.Kind == o.Kind && d.Name == o.Name && d.Field == o.Field && d.Action == o.Action && d.Why == o.Why && d.Secret == o.Secret && value(d.Old, o.Old) &&
		value(d.New, o.New) && content(d.From, o.From) && content(d.To, o.To) && d.Cut == o.Cut && slices.EqualFunc(d.Hunks, o.Hunks, Hunk.equal)
}
