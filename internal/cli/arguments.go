package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
)

// checkArguments has wrong arguments and unknown commands end as invalid input, as wrong flags do, for c and all below it.
func checkArguments(c *cobra.Command) {
	switch check := c.Args; {
	case !c.Runnable() && c.HasSubCommands():
		c.Args, c.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		}
	case check != nil:
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return fail.Wrap(fail.Invalid, err, "command line").Do("usage: %s", c.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkArguments(sub)
	}
}

func unknownCommand(c *cobra.Command, name string) error {
	if c.SuggestionsMinimumDistance <= 0 {
		c.SuggestionsMinimumDistance = 2
	}
	err := fail.New(fail.Invalid, "%s has no command %q", c.CommandPath(), name)
	if near := c.SuggestionsFor(name); len(near) > 0 {
		return err.Do("did you mean %s?", strings.Join(near, " or "))
	}
	return err.Do("see %s --help", c.CommandPath())
}
