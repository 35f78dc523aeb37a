package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/show"
)

// atLeastOne is the value of a flag that takes a number from 1 up.
type atLeastOne int

// String returns the number.
func (n *atLeastOne) String() string { return strconv.Itoa(int(*n)) }

// Type is what help calls the value.
func (n *atLeastOne) Type() string { return "int" }

// Set reads the number.
func (n *atLeastOne) Set(text string) error {
	v, err := strconv.Atoi(text)
	if err != nil || v < 1 {
		return fail.New(fail.Invalid, "%q is not a number from 1 up", text)
	}
	*n = atLeastOne(v)
	return nil
}

// progress is the value of --progress; empty, it depends on the terminal.
type progress string

// String returns the name.
func (p *progress) String() string { return string(*p) }

// Type is what help calls the value.
func (p *progress) Type() string { return "string" }

// Set takes one of the observers' names.
func (p *progress) Set(name string) error {
	if known := progressNames(); !slices.Contains(known, name) {
		return fmt.Errorf("there is no %q; choose %s", name, strings.Join(known, ", "))
	}
	*p = progress(name)
	return nil
}

// progressNames lists what --progress takes.
func progressNames() []string {
	return []string{string(show.ObserveTTY), string(show.ObservePlain), string(show.ObserveJSON), string(show.ObserveNone)}
}
