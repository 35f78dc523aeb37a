package cli

import (
	"fmt"
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
				return fail.New(fail.Invalid, "%s: %s", c.CommandPath(), wrongArguments(c, args, err)).Do("usage: %s", c.UseLine())
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		checkArguments(sub)
	}
}

// wrongArguments says which argument is missing or too much, by the names that the usage gives them.
func wrongArguments(c *cobra.Command, args []string, err error) string {
	required := requiredArguments(c.Use)
	switch {
	case len(args) < len(required):
		return strings.Join(required[len(args):], " and ") + " missing"
	case len(args) > 0:
		return fmt.Sprintf("%q is one argument too many", args[len(args)-1])
	}
	return err.Error()
}

// requiredArguments lists the names of the arguments that a usage asks for; flags with their values and what is in brackets are left out.
func requiredArguments(use string) (names []string) {
	optional, flag := false, false
	for _, word := range strings.Fields(use)[1:] {
		optional = optional || strings.HasPrefix(word, "[")
		switch {
		case flag:
			flag = false
		case word == "--":
		case strings.HasPrefix(word, "-"):
			flag = true
		case !optional:
			names = append(names, strings.TrimSuffix(word, "..."))
		}
		optional = optional && !strings.HasSuffix(word, "]")
	}
	return names
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

// otherWords are what people type who know other tools, by the verb that they mean.
var otherWords = map[string][]string{
	"apply": {"create", "up", "build", "update"}, "destroy": {"delete", "down", "remove", "rm"}, "status": {"get", "list", "ls", "describe", "show"},
	"init": {"new", "generate"}, "validate": {"check", "lint"}, "plan": {"diff", "preview"}, "ssh": {"exec", "shell"},
}

// suggestForOtherWords has each verb suggested to those who type another tool's word for it.
func suggestForOtherWords(root *cobra.Command) {
	for _, c := range root.Commands() {
		c.SuggestFor = append(c.SuggestFor, otherWords[c.Name()]...)
	}
}

// helpCommand is cobra's own, except that help on what does not exist is an error.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show help on a command", Example: "  naupegos help node replace",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
			at, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			for _, sub := range at.Commands() {
				if sub.IsAvailableCommand() {
					names = append(names, sub.Name()+"\t"+sub.Short)
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			at, rest, err := root.Find(args)
			switch {
			case err != nil:
				return unknownCommand(root, args[0])
			case len(rest) > 0:
				return unknownCommand(at, rest[0])
			}
			at.InitDefaultHelpFlag()
			return at.Help()
		},
	}
}
