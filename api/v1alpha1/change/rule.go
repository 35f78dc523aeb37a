// Package change says what the change of each field of the document means for a running cluster: a table of rules by the field's path. It knows the fields' names
// only; the document's package has their types, and a test that each has a rule.
package change

// Class says what a change of a field means for a running cluster.
type Class string

// The classes.
const (
	Free    Class = "free"    // nothing that runs is disturbed
	Rolling Class = "rolling" // services restart, one machine after another
	Consent Class = "consent" // something is given up for good: apply needs --consent
	Verb    Class = "verb"    // apply refuses it; another command does it
	Refused Class = "refused" // it can't be changed during the cluster's life
)

// Rule says what a change of one field means.
type Rule struct {
	Class Class
	Say   string // free and rolling: what happens, may be empty; consent: its name and purpose; otherwise what to do instead
	// Live: the provider compares the field with what exists, because the same thing can be written in several ways (a name, an ID).
	Live bool
}

// Rules says what changes mean, by path.
type Rules map[string]Rule

// Text returns the rule in words for users.
func (r Rule) Text() string {
	if r.Say == "" || r.Say == backOrAnew {
		return string(r.Class)
	}
	return string(r.Class) + ": " + r.Say
}
