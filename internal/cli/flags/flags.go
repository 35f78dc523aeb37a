// Package flags contains the values of flags that several commands share. It checks the user's input and does not depend on the commands.
package flags

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/cluster/parts"
	"github.com/naupegos/naupegos/internal/fail"
)

// Consents is the value of --consent. Set refuses a name that no plan requests, because otherwise the mistake would show late, or never.
type Consents struct {
	Given []string
	Known []string // names that plans may request
}

// Has reports whether the user consented to a whole kind.
func (c *Consents) Has(kind string) bool { return slices.Contains(c.Given, kind) }

// String lists the names.
func (c *Consents) String() string { return strings.Join(c.Given, ",") }

// Type returns the value's type for the help.
func (c *Consents) Type() string { return "strings" }

// Set adds names, separated by commas.
func (c *Consents) Set(names string) error {
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		if kind, _, _ := strings.Cut(name, "="); !slices.Contains(c.Known, kind) {
			return fmt.Errorf("no plan asks for consent to %q; there are %s", name, strings.Join(c.Known, ", "))
		}
		c.Given = append(c.Given, name)
	}
	return nil
}

// AtLeastOne is the value of a flag that takes a number from 1 up.
type AtLeastOne int

// String returns the number.
func (n *AtLeastOne) String() string { return strconv.Itoa(int(*n)) }

// Type returns the value's type for the help.
func (n *AtLeastOne) Type() string { return "int" }

// Set parses the number.
func (n *AtLeastOne) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 {
		return fail.New(fail.Invalid, "%q is not a number from 1 up", text)
	}
	*n = AtLeastOne(v)
	return nil
}

// Parts is the value of --only.
type Parts []parts.Part

// Usage returns the flag's text for the help.
func (f *Parts) Usage() string {
	return "only these parts of the cluster, separated by commas: " + parts.Words(parts.All())
}

// String lists the parts.
func (f *Parts) String() string { return parts.Words(*f) }

// Type returns the value's type for the help.
func (f *Parts) Type() string { return "strings" }

// Set adds parts, separated by commas.
func (f *Parts) Set(names string) error {
	all := strings.Split(strings.ReplaceAll(names, " ", ""), ",")
	for _, p := range *f {
		all = append(all, string(p))
	}
	var err error
	*f, err = parts.Parse(all)
	return err
}
