package verbs

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/terminal"
)

// Help returns cobra's help command, except that help on an unknown command is an error.
func Help(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND...]", Short: "Show the help of a command", Example: "  naupegos help node replace",
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

// AddCompletion adds cobra's command completion early, so that its arguments are checked as those of the other commands are.
func AddCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	c := child(root, "completion")
	c.Example = "  naupegos completion bash"
	for shell, example := range map[string]string{
		"bash": "  source <(naupegos completion bash)", "zsh": "  source <(naupegos completion zsh)", "fish": "  naupegos completion fish | source",
		"powershell": "  naupegos completion powershell | Out-String | Invoke-Expression",
	} {
		if sub := child(c, shell); sub != nil {
			sub.Example = example
		}
	}
}

// options prints the global flags, which the help of each command leaves out.
func options() *cobra.Command {
	return &cobra.Command{
		Use: "options", Short: "List the flags that every command takes", Example: "  naupegos options", Args: cobra.NoArgs, Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			w := c.OutOrStdout()
			_, err := fmt.Fprintf(w, "Every command takes these flags:\n\n%s", c.Root().PersistentFlags().FlagUsagesWrapped(terminal.Width(w)))
			return err
		},
	}
}

// LayOutHelp lays out usage and help of root and all commands below it: wrapped at the terminal's width, without the global flags.
func LayOutHelp(root *cobra.Command) {
	root.AddCommand(options())
	root.SetUsageFunc(func(c *cobra.Command) error { return writeUsage(c.OutOrStderr(), c) })
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		w := c.OutOrStdout()
		text := c.Long
		if text == "" {
			text = c.Short
		}
		fmt.Fprintf(w, "%s\n\n", wrap(paragraphs(renamed(c, strings.TrimSpace(text))), terminal.Width(w)))
		if err := writeUsage(w, c); err != nil {
			c.PrintErrln(err)
		}
	})
}

// plugin is the program's name as a plugin of kubectl.
const plugin = "kubectl-naupegos"

// AsPlugin makes texts call the command `kubectl naupegos` if kubectl runs it as a plugin, which the program's name shows.
func AsPlugin(root *cobra.Command, program string) {
	if filepath.Base(program) == plugin {
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl naupegos"}
	}
}

// renamed replaces command names in a text by what the user types.
func renamed(c *cobra.Command, text string) string {
	own, shown := c.Root().Name(), c.Root().DisplayName()
	if own == shown {
		return text
	}
	return strings.NewReplacer("  "+own+" ", "  "+shown+" ", "\n"+own+" ", "\n"+shown+" ", "$ "+own+" ", "$ "+shown+" ").Replace(text)
}

// writeUsage writes all of a command's help except its description.
func writeUsage(w io.Writer, c *cobra.Command) error {
	width := terminal.Width(w)
	var b strings.Builder
	b.WriteString("Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(&b, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND\n", c.CommandPath())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", renamed(c, c.Example))
	}
	groups := c.Groups()
	if len(groups) == 0 {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	for _, g := range groups {
		if c.HasAvailableSubCommands() {
			fmt.Fprintf(&b, "\n%s\n", g.Title)
		}
		for _, sub := range c.Commands() {
			if sub.GroupID == g.ID && (sub.IsAvailableCommand() || sub.Name() == "help") {
				lead := fmt.Sprintf("  %-*s ", sub.NamePadding(), sub.Name())
				b.WriteString(lead + strings.TrimLeft(wrap(strings.Repeat(" ", len(lead))+sub.Short, width), " ") + "\n")
			}
		}
	}
	flags := c.LocalFlags()
	if c.HasParent() {
		flags = c.LocalNonPersistentFlags()
	}
	if flags.HasAvailableFlags() && c.HasParent() {
		fmt.Fprintf(&b, "\nFlags:\n%s", flags.FlagUsagesWrapped(width))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "\nUse \"%s COMMAND --help\" for more about a command.", c.CommandPath())
	}
	fmt.Fprintf(&b, "\nUse \"%s options\" for global flags.\n", c.Root().DisplayName())
	_, err := io.WriteString(w, b.String())
	return err
}

// paragraphs joins the lines of each paragraph, so that wrap can break them at another width. Indented lines stay as they are.
func paragraphs(text string) string {
	var out []string
	open := false // the last line may go on
	for line := range strings.SplitSeq(text, "\n") {
		prose := line != "" && line[0] != ' '
		if prose && open {
			out[len(out)-1] += " " + line
		} else {
			out = append(out, line)
		}
		open = prose
	}
	return strings.Join(out, "\n")
}

// wrap breaks long lines at words and gives the continuation the line's indentation. Lines that fit are unchanged.
func wrap(text string, width int) string {
	width = max(width, 30)
	var out []string
	for line := range strings.SplitSeq(text, "\n") {
		indent := line[:len(line)-len(strings.TrimLeft(line, " "))]
		if len(indent) > width/2 {
			indent = "    "
		}
		for len(line) > width {
			at := strings.LastIndexByte(line[:width+1], ' ')
			if at <= len(indent) {
				break
			}
			out = append(out, line[:at])
			line = indent + strings.TrimLeft(line[at:], " ")
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}
