package wanted

import "maps"

// Decision is a decision about one machine, in addition to the document's settings of its group.
type Decision string

// The decisions of a machine.
const (
	Remove    Decision = "leave"     // it is removed before any other of its group
	Replace   Decision = "renew"     // another machine of the same name takes its place
	Reinstall Decision = "reinstall" // the same machine is installed from scratch and takes its place again
	Surge     Decision = "surge"     // an extra machine for the time in which its pool's own machines are changed; decided before its creation
)

// Replaces reports whether the machine is removed and its place is filled again.
func (d Decision) Replaces() bool { return d == Replace || d == Reinstall }

// Decisions maps machine names to decisions.
type Decisions map[string]Decision

// clone returns decisions that can be changed.
func (fs Decisions) clone() Decisions {
	out := Decisions{}
	maps.Copy(out, fs)
	return out
}

// InPlace returns the decisions with no machine replaced.
func (fs Decisions) InPlace() Decisions {
	out := fs.clone()
	maps.DeleteFunc(out, func(_ string, d Decision) bool { return d.Replaces() })
	return out
}

// With returns the decisions with the machines of how decided to be renewed, unless something was decided about them already.
func (fs Decisions) With(how map[string][]string) Decisions {
	out := fs.clone()
	for name := range how {
		if _, ok := out[name]; !ok {
			out[name] = Replace
		}
	}
	return out
}
