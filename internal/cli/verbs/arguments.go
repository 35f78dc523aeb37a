// Package verbs dresses the tree of commands: it checks and completes arguments, suggests corrections, and lays out help.
//
// It knows commands only by their usage texts, and clusters only by their names.
package verbs

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/fail"
)

// Names looks up names for arguments.
type Names struct {
	Err      io.Writer
	Default  func() (cluster, from string, err error)                // default cluster and the setting that chose it; empty: no default
	Clusters func(context.Context) ([]string, error)                 // all clusters
	Machines func(ctx context.Context, cluster string) (of []string) // a cluster's machines, as far as they are known
	Server   func() bool                                             // whether the user named a server
}

// Path is a command's name without the program's: "node list".
func Path(c *cobra.Command) string {
	var words []string
	for ; c.HasParent(); c = c.Parent() {
		words = append([]string{c.Name()}, words...)
	}
	return strings.Join(words, " ")
}

// CheckArguments turns wrong arguments and unknown commands into fail.Invalid, as wrong flags are, for c and all commands below it. It fills in
// the default cluster.
func CheckArguments(c *cobra.Command, n *Names) {
	switch check := c.Args; {
	case !c.Runnable() && c.HasSubCommands():
		c.Args, c.DisableFlagsInUseLine = cobra.ArbitraryArgs, true
		c.RunE = func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return c.Help()
			}
			return unknownCommand(c, args[0])
		}
	case check != nil || c.Runnable() && usageOf(c).fills != never:
		if check == nil {
			check = cobra.ArbitraryArgs
		}
		run, full := c.RunE, []string(nil)
		c.Args = func(c *cobra.Command, args []string) (err error) {
			if args, err = waiting(c, args); err == nil {
				full, err = n.complete(c, args)
			}
			if err != nil {
				return err
			}
			if err := check(c, full); err != nil {
				e := fail.New(fail.Invalid, "%s: %s", c.CommandPath(), wrongArguments(c, full, err))
				if f := c.Flags().ShorthandLookup("f"); f != nil && f.Name == "file" && len(full) > 0 && documentName.MatchString(full[len(full)-1]) {
					return e.Do("name the document with -f %s", full[len(full)-1])
				}
				return e.Do("usage: %s", c.UseLine())
			}
			return nil
		}
		c.RunE = func(c *cobra.Command, _ []string) error { return run(c, full) }
		if u := usageOf(c); u.fills == always && u.nameOptional && c.Flags().Lookup("all") == nil {
			c.Flags().Bool("all", false, "all clusters, also while naupegos use has chosen one")
		}
	}
	for _, sub := range c.Commands() {
		CheckArguments(sub, n)
	}
}

var documentName = regexp.MustCompile(`\.(yaml|yml|json)$`)

// wrongArguments returns a message that says which argument is missing or extra, by its name in the usage.
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

// requiredArguments lists the arguments that a usage requires, without flags, their values and anything in brackets or braces.
func requiredArguments(use string) (names []string) {
	optional, flag := false, false
	for _, word := range strings.Fields(use)[1:] {
		optional = optional || strings.HasPrefix(word, "[") || strings.HasPrefix(word, "{")
		switch {
		case flag:
			flag = false
		case word == "--":
		case strings.HasPrefix(word, "-"):
			flag = true
		case !optional:
			names = append(names, strings.TrimSuffix(word, "..."))
		}
		optional = optional && !strings.HasSuffix(word, "]") && !strings.HasSuffix(word, "}")
	}
	return names
}

// filling says when NAME defaults to the default cluster.
type filling int

const (
	never    filling = iota // a missing NAME has its own meaning, or NAME is no cluster
	always                  // wherever NAME is missing
	explicit                // never, because the verb deletes data: NAME must be typed
)

// ends lists the verbs that delete data, or a cluster's entry in the store.
var ends = []string{"destroy", "reset", "release", "backup restore", "etcd recover", "backup prune"}

// wholesale lists the verbs that act on the whole cluster if no machine is named; they then require NAME.
var wholesale = []string{"machine stop", "machine kill", "machine reboot"}

// other lists the verbs for which a missing NAME has its own meaning, or whose NAME is no cluster.
var other = []string{"doctor", "import", "server credential add", "server credential remove", "server token create"}

// usage describes a command's arguments, as its usage text gives them.
type usage struct {
	fills        filling
	nameOptional bool
	severalNames bool
	least, most  int  // arguments beside NAME; most < 0: any number
	machines     bool // the argument after NAME is a machine
}

// usageOf parses a command's usage text.
func usageOf(c *cobra.Command) usage {
	_, text, _ := strings.Cut(c.Use, " ")
	text, _, _ = strings.Cut(text, " |") // "NAME... | --all", "NAME | -f FILE"
	words := strings.Fields(text)
	if len(words) == 0 || strings.TrimSuffix(strings.Trim(words[0], "[]"), "...") != "NAME" {
		return usage{}
	}
	u := usage{fills: always, nameOptional: strings.HasPrefix(words[0], "["), severalNames: strings.Contains(words[0], "...")}
	switch path := Path(c); {
	case slices.Contains(ends, path):
		u.fills = explicit
	case slices.Contains(other, path):
		u.fills = never
	}
	for i, word := range words[1:] {
		bare := strings.Trim(word, "[]")
		switch {
		case bare == "--":
			continue
		case strings.HasPrefix(word, "-"), strings.HasPrefix(word, "{"): // flags
			return u
		}
		u.machines = u.machines || i == 0 && strings.HasPrefix(bare, "MACHINE")
		if strings.HasSuffix(bare, "...") {
			u.most = -1
		} else if u.most >= 0 {
			u.most++
		}
		if strings.Contains(requiredList(c.Use), " "+strings.TrimSuffix(bare, "...")+" ") {
			u.least++
		}
	}
	return u
}

func requiredList(use string) string { return " " + strings.Join(requiredArguments(use), " ") + " " }

// chosenElsewhere reports whether flags or the alias of the verb select something other than a single cluster.
func (n *Names) chosenElsewhere(c *cobra.Command, u usage) bool {
	if all := c.Flags().Lookup("all"); all != nil && all.Changed && (u.nameOptional || u.severalNames) {
		return true
	}
	if file := c.Flags().Lookup("file"); file != nil && file.Changed && (u.nameOptional || strings.Contains(c.Use, "| -f")) {
		return true
	}
	return slices.Contains([]string{"ls", "clusters"}, c.CalledAs()) || Path(c) == "machine list" && n.Server()
}

// complete inserts the default cluster before arguments that omit NAME. Every verb's arguments pass through it.
func (n *Names) complete(c *cobra.Command, args []string) ([]string, error) {
	u := usageOf(c)
	if u.fills == never || n.chosenElsewhere(c, u) {
		return args, nil
	}
	given := len(args)
	if dash := c.ArgsLenAtDash(); dash >= 0 {
		given = dash
	}
	if given > 0 && (u.severalNames || u.most >= 0 && given > u.most) { // NAME is among them
		return args, nil
	}
	name, from, err := n.Default()
	if err != nil || name == "" {
		return args, err
	}
	if u.fills == explicit || given == 0 && slices.Contains(wholesale, Path(c)) {
		if given > u.least {
			return args, nil
		}
		return nil, fail.New(fail.Invalid, "%s: NAME missing", c.CommandPath()).
			Do("this verb takes no default; if you mean %s, which %s chose, type it", name, from)
	}
	if given > 0 && (given > u.least || u.machines) {
		named, err := n.named(c.Context(), u, name, args[:given])
		if err != nil || named {
			return args, err
		}
	}
	if c.Flags().Lookup("yes") != nil && !quiet(c) {
		fmt.Fprintf(n.Err, "cluster %s, which %s chose\n", name, from)
	}
	return append([]string{name}, args...), nil
}

// quiet reports whether standard error carries JSON lines, which no other text may interrupt.
func quiet(c *cobra.Command) bool {
	f := c.Flags().Lookup("progress")
	return f != nil && f.Value.String() == "json"
}

// named reports whether the first argument names a cluster. It refuses an ambiguous argument, and one that looks like a misspelt cluster.
func (n *Names) named(ctx context.Context, u usage, name string, args []string) (bool, error) {
	first, enough := args[0], len(args) > u.least
	if first == name {
		return true, nil
	}
	clusters, err := n.Clusters(ctx)
	if err != nil {
		return false, err
	}
	machine := false
	if u.machines {
		machines := n.Machines(ctx, name)
		machine = slices.Contains(machines, first) || slices.Contains(machines, name+"-"+first)
	}
	switch cluster := slices.Contains(clusters, first); {
	case cluster && machine && enough:
		return false, fail.New(fail.Invalid, "%s is a cluster, and a machine of %s", first, name).Do("give both names: %s %s, or %s MACHINE", name, first, first)
	case cluster:
		return !machine, nil
	case machine || !enough || u.most < 0 && !u.machines: // the text after NAME is free
		return false, nil
	}
	if near := fail.Nearest(first, clusters); near != "" {
		return false, fail.New(fail.NotFound, "there is no such cluster").At(first).Do("did you mean %s? For the chosen cluster, leave the name out or type it: %s", near, name)
	}
	return false, nil
}
