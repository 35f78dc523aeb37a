package facts

import (
	"net/url"

	"github.com/naupegos/naupegos/internal/fail"
)

// Selector identifies a machine in the form of boot loaders: "uuid=…&mac=52-54-…&os=installed".
type Selector struct {
	UUID, MAC string // at least one
	OS        string // "installed" if the client runs from the disk
}

// maxSelector is longer than any selector that a boot loader sends.
const maxSelector = 4096

// ParseSelector parses a selector. Keys that do not identify a machine are allowed.
func ParseSelector(text string) (s Selector, err error) {
	if len(text) > maxSelector {
		return s, fail.New(fail.Invalid, "the selector has more than %d bytes", maxSelector)
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return s, fail.Wrap(fail.Invalid, err, "%q is not a selector", clean(text, 64)).Do("write it as uuid=…&mac=…&os=installed")
	}
	return SelectorOf(values)
}

// SelectorOf returns the selector in a request's query.
func SelectorOf(values url.Values) (s Selector, err error) {
	s.OS = clean(values.Get("os"), maxText)
	if v := values.Get("uuid"); v != "" {
		if s.UUID, err = ParseUUID(v); err != nil {
			return Selector{}, err
		}
	}
	if v := values.Get("mac"); v != "" {
		if s.MAC, err = ParseMAC(v); err != nil {
			return Selector{}, err
		}
	}
	if s.UUID == "" && s.MAC == "" {
		return Selector{}, fail.New(fail.Invalid, "the selector names no machine").Do("write it as uuid=…&mac=…")
	}
	return s, nil
}

// String returns the selector for people.
func (s Selector) String() string {
	if s.UUID == "" {
		return s.MAC
	}
	return s.UUID
}
