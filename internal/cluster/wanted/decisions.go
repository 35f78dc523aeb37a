package wanted

// Decision is what was decided about one machine, beside what the document says of its group.
type Decision string

// The decisions of a machine.
const (
	Remove  Decision = "leave" // it goes before any other of its group
	Replace Decision = "renew" // another machine of the same name takes its place
	Surge   Decision = "surge" // it is there beside its pool's own machines while these are changed, then it goes; decided before it is made
)

// Decisions maps machines' names to what was decided.
type Decisions map[string]Decision

// Without returns the decisions that are not f.
func (fs Decisions) Without(f Decision) Decisions {
	out := Decisions{}
	for name, v := range fs {
		if v != f {
			out[name] = v
		}
	}
	return out
}

// With returns the decisions with the machines of how decided to be renewed, unless something was decided about them already.
func (fs Decisions) With(how map[string][]string) Decisions {
	out := fs.Without("")
	for name := range how {
		if _, ok := out[name]; !ok {
			out[name] = Replace
		}
	}
	return out
}
