package verbs

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// longUnits are the units that Go's durations lack, in hours.
var longUnits = map[string]float64{"d": 24, "w": 7 * 24}

// longUnit matches a number with a long unit.
var longUnit = regexp.MustCompile(`([0-9]*\.?[0-9]+)([dw])`)

// inHours converts days and weeks to hours. It leaves other texts for Go's own error.
func inHours(text string) string {
	return longUnit.ReplaceAllStringFunc(text, func(part string) string {
		at := longUnit.FindStringSubmatch(part)
		n, err := strconv.ParseFloat(at[1], 64)
		if err != nil {
			return part
		}
		return strconv.FormatFloat(n*longUnits[at[2]], 'f', -1, 64) + "h"
	})
}

// duration is the value of every flag that takes a duration, including 30d and 2w.
type duration struct{ pflag.Value }

// Set implements pflag.Value.
func (d duration) Set(text string) error {
	if err := d.Value.Set(inHours(text)); err != nil {
		return fmt.Errorf("%q is no duration; write it as 90s, 5m, 8h, 30d or 2w", text) // cause withheld: it quotes the text in hours, which the user did not write
	}
	return nil
}

// TakeDays makes all duration flags of c and all commands below it accept days and weeks.
func TakeDays(c *cobra.Command) {
	for _, set := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		set.VisitAll(func(f *pflag.Flag) {
			if _, done := f.Value.(duration); !done && f.Value.Type() == "duration" {
				f.Value = duration{f.Value}
			}
		})
	}
	for _, sub := range c.Commands() {
		TakeDays(sub)
	}
}
