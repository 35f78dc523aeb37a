package v1alpha1

import (
	"errors"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
)

// Duration is a length of time that documents write as "90s", "5m" or "1h30m". Zero means "not given".
type Duration struct{ time.Duration }

// UnmarshalText reads the document form. Zero is refused: it is what a missing value looks like.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	switch {
	case err != nil:
		return errors.New("is not a duration")
	case v <= 0:
		return errors.New("must be more than nothing")
	}
	d.Duration = v
	return nil
}

// MarshalText writes the document form without needless parts: "5m", not "5m0s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String is the document form.
func (d Duration) String() string {
	s := d.Duration.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// JSONSchema describes the document form.
func (Duration) JSONSchema() *jsonschema.Schema {
	return &jsonschema.Schema{
		Type:        "string",
		Pattern:     `^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$`,
		Description: `A length of time: "90s", "5m", "1h30m".`,
	}
}
