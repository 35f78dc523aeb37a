// Package rotation computes the phases by which a cluster changes from one generation of its authorities and keys to the next.
//
// It is arithmetic on generations and knows nothing of machines.
package rotation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

// Phase is how the parts of a cluster use two generations of a key. A phase begins only once every part is in the previous one: parts accept the
// credentials of parts that are one phase ahead or behind.
type Phase string

// The phases, in order; a rotation begins with Make if an external issuer creates the next generation, and Abandon follows only Make and Trust.
const (
	Make    Phase = "make"    // the former generation alone is trusted, and signs; the next one is made
	Trust   Phase = "trust"   // both generations are trusted, the former one signs
	Use     Phase = "use"     // both generations are trusted, the next one signs
	Drop    Phase = "drop"    // the next generation alone is trusted, and signs
	Abandon Phase = "abandon" // the former generation alone is trusted, and signs
)

// Rotation is a rotation in one of its phases. The zero value is none.
type Rotation struct {
	Phase Phase
	from  map[string]int // the former generation of each key that is rotated, by its name (pki.Rotated)
}

// Begin returns the rotation of keys in its first phase; settled returns the generation in use.
func Begin(keys []string, settled func(key string) int) Rotation {
	r := Rotation{Phase: Trust, from: map[string]int{}}
	for _, k := range keys {
		r.from[k] = max(settled(k), 1)
	}
	return r
}

// Made returns the rotation with a phase before in which the next generation is made.
func (r Rotation) Made() Rotation { return Rotation{Phase: Make, from: r.from} }

// Former is the generation of a key that a rotation began with.
func (r Rotation) Former(key string) int { return r.from[key] }

// IsZero reports whether there is none.
func (r Rotation) IsZero() bool { return r.Phase == "" }

// Keys lists the names of the keys that are rotated, sorted.
func (r Rotation) Keys() []string { return slices.Sorted(maps.Keys(r.from)) }

// Has reports whether any of these keys is rotated.
func (r Rotation) Has(keys ...string) bool {
	return slices.ContainsFunc(keys, func(k string) bool { return r.from[k] != 0 })
}

// String is the form that Parse reads.
func (r Rotation) String() string {
	if r.IsZero() {
		return ""
	}
	var keys []string
	for _, k := range r.Keys() {
		keys = append(keys, fmt.Sprintf("%s:%d", k, r.from[k]))
	}
	return string(r.Phase) + " " + strings.Join(keys, ",")
}

// Parse parses the output of String.
func Parse(s string) (Rotation, error) {
	if s == "" {
		return Rotation{}, nil
	}
	phase, keys, _ := strings.Cut(s, " ")
	r := Rotation{Phase: Phase(phase), from: map[string]int{}}
	known := slices.Contains([]Phase{Make, Trust, Use, Drop, Abandon}, r.Phase)
	for _, k := range strings.Split(keys, ",") {
		name, number, _ := strings.Cut(k, ":")
		from, err := strconv.Atoi(number)
		known = known && err == nil && from > 0 && slices.Contains(pki.Rotated(), name)
		r.from[name] = from
	}
	if !known {
		return Rotation{}, fail.New(fail.Internal, "%q does not say which keys are rotated", s)
	}
	return r, nil
}

// Next returns the rotation in the phase after the one that everything is in; none after the last.
func (r Rotation) Next() Rotation {
	next := map[Phase]Phase{Make: Trust, Trust: Use, Use: Drop}[r.Phase]
	if next == "" {
		return Rotation{}
	}
	return Rotation{Phase: next, from: r.from}
}

// Abandoned returns the way back. It returns fail.Refused if there is none because signatures of the next generation are in use.
func (r Rotation) Abandoned() (Rotation, error) {
	switch r.Phase {
	case Make, Trust, Abandon:
		return Rotation{Phase: Abandon, from: r.from}, nil
	case "":
		return r, fail.New(fail.Refused, "nothing is being rotated")
	}
	return r, fail.New(fail.Refused, "signatures of the next keys are in use already: the rotation can't be undone").
		Do("let it finish (naupegos apply continues; where it is held, certs rotate --finish); then the keys can be rotated again")
}

// In returns which generations of a key are in use in the present phase; settled is the one of a key that is not rotated.
func (r Rotation) In(key string, settled int) pki.Generations {
	from := r.from[key]
	switch {
	case from == 0:
		return pki.Generations{Signs: max(settled, 1)}
	case r.Phase == Trust:
		return pki.Generations{Signs: from, Also: from + 1}
	case r.Phase == Use:
		return pki.Generations{Signs: from + 1, Also: from}
	case r.Phase == Drop:
		return pki.Generations{Signs: from + 1}
	}
	return pki.Generations{Signs: from}
}

// Goes returns the generation of a key that is obsolete once everything is in the present phase, which is the last.
func (r Rotation) Goes(key string) int {
	if r.Phase == Abandon {
		return r.from[key] + 1
	}
	return r.from[key]
}

// Words describes the present phase.
func (r Rotation) Words() string {
	switch r.Phase {
	case Make:
		return "the next authorities are created where the present ones are"
	case Trust:
		return "everything trusts the next keys too"
	case Use:
		return "everything uses the next keys"
	case Drop:
		return "nothing trusts the former keys"
	case Abandon:
		return "nothing trusts the next keys, which nothing has used"
	}
	return ""
}
