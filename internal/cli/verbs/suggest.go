package verbs

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/naupegos/naupegos/internal/fail"
)

// otherWords maps a verb to the words that other tools use for it.
var otherWords = map[string][]string{
	"apply": {"create", "up", "build"}, "destroy": {"down", "remove"}, "status": {"get", "list", "show"},
	"init": {"new", "generate"}, "validate": {"check", "lint"}, "plan": {"preview"}, "ssh": {"exec", "shell"}, "use": {"context", "config", "switch"},
}

// Elsewhere maps words of other tools to the commands here, if those are neither in the same group nor spelt alike. Keys begin with the group's path.
func Elsewhere() map[string]string {
	return map[string]string{
		"bootstrap": "apply", "edit": "document", "patch": "apply", "rolling-update": "apply", "scale": "node add", "join": "node add", "drain": "node drain",
		"cordon": "node cordon", "uncordon": "node uncordon", "reboot": "machine reboot", "restart": "machine reboot", "start": "machine start", "stop": "machine stop",
		"shutdown": "machine stop", "rotate": "certs rotate", "snapshot": "backup create", "restore": "backup restore", "export": "kubeconfig", "gen": "init", "fmt": "validate",
		"health": "status", "members": "status", "state": "status", "refresh": "diff", "cluster-info": "status", "rollout": "history", "dashboard": "ui", "web": "ui", "dmesg": "logs",
		"journal": "logs", "token": "server token", "audit": "server audit", "auth": "login", "pull": "bundle pull", "label": "kubectl", "taint": "kubectl", "must-gather": "support",
		"node get": "node list", "node show": "node list", "node describe": "describe", "node reboot": "machine reboot", "node label": "kubectl", "node taint": "kubectl",
		"machine get": "machine list", "machine describe": "describe", "machine add": "node add", "machine remove": "node remove", "machine replace": "node replace", "machine shutdown": "machine stop",
		"certs check-expiration": "certs list", "certs show": "certs list", "certs renew": "renew", "etcd snapshot": "backup create", "etcd backup": "backup create", "etcd members": "status",
		"etcd status": "status", "etcd restore": "backup restore", "backup new": "backup create", "backup test": "backup rehearse", "backup verify": "backup rehearse", "image list": "bundle list",
	}
}

// aliases maps a verb's path to its other names; every `list` is also `ls`, and every `remove` also `rm` and `delete`.
var aliases = map[string][]string{"status": {"ls", "clusters"}, "destroy": {"rm", "delete"}}

// AddAliases gives c and all commands below it their aliases.
func AddAliases(c *cobra.Command) {
	c.Aliases = append(c.Aliases, aliases[Path(c)]...)
	if c.HasParent() && c.Parent().HasParent() {
		switch c.Name() {
		case "list":
			c.Aliases = append(c.Aliases, "ls")
		case "remove":
			c.Aliases = append(c.Aliases, "rm", "delete")
		}
	} else {
		c.SuggestFor = append(c.SuggestFor, otherWords[c.Name()]...)
	}
	for _, sub := range c.Commands() {
		AddAliases(sub)
	}
}

func unknownCommand(c *cobra.Command, name string) error {
	err := fail.New(fail.Invalid, "%s has no command %q", c.CommandPath(), name)
	known, meant, begun := []string(nil), []string(nil), []string(nil)
	for _, sub := range c.Commands() {
		if !sub.IsAvailableCommand() {
			continue
		}
		for _, other := range sub.SuggestFor {
			if strings.EqualFold(other, name) {
				meant = append(meant, sub.Name())
			}
		}
		if len(name) > 1 && strings.HasPrefix(sub.Name(), strings.ToLower(name)) {
			begun = append(begun, sub.Name())
		}
		known = append(append(known, sub.Name()), sub.Aliases...)
	}
	if other, ok := Elsewhere()[strings.TrimSpace(Path(c)+" "+strings.ToLower(name))]; ok && len(meant) == 0 {
		return err.Do("did you mean %s %s?", c.Root().Name(), other)
	}
	if len(meant) == 0 {
		meant = begun
	}
	if near := fail.Nearest(name, known); near != "" && len(meant) == 0 {
		meant = append(meant, near)
	}
	if len(meant) > 0 {
		return err.Do("did you mean %s?", strings.Join(meant, " or "))
	}
	return err.Do("see %s --help", c.CommandPath())
}

// Misspelt returns an error for an unknown command. It runs before flags are parsed, because a misspelt command's flags are unknown, too.
func Misspelt(root *cobra.Command, args []string) error {
	c := root
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case word == "--" || len(word) == 0:
			return nil
		case word[0] == '-' && len(word) > 1:
			if takesNext(c, word) {
				i++
			}
			continue
		}
		sub := child(c, word)
		switch {
		case sub == nil && c == root && (word == "help" || strings.HasPrefix(word, "__")): // cobra adds these late
			return nil
		case sub == nil && c.HasSubCommands():
			return unknownCommand(c, word)
		case sub == nil || !sub.HasSubCommands():
			return nil
		}
		c = sub
	}
	return nil
}

func child(c *cobra.Command, name string) *cobra.Command {
	for _, sub := range c.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

// takesNext reports whether the word after a flag is its value.
func takesNext(c *cobra.Command, word string) bool {
	if strings.Contains(word, "=") {
		return false
	}
	var f *pflag.Flag
	if long, ok := strings.CutPrefix(word, "--"); ok {
		if f = c.Flags().Lookup(long); f == nil {
			f = c.Root().PersistentFlags().Lookup(long)
		}
	} else {
		last := word[len(word)-1:]
		if f = c.Flags().ShorthandLookup(last); f == nil {
			f = c.Root().PersistentFlags().ShorthandLookup(last)
		}
	}
	return f != nil && f.NoOptDefVal == ""
}

// otherFlags maps flags of other tools to the flags here.
var otherFlags = map[string]string{
	"auto-approve": "yes", "force": "yes", "assume-yes": "yes", "filename": "file", "selector": "selector", "kube-context": "context", "dryrun": "dry-run", "out": "output", "format": "output",
}

// FlagError returns an error that names the wrong flag and suggests the right one.
func FlagError(c *cobra.Command, err error) error {
	e := fail.Wrap(fail.Invalid, err, "command line")
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var known []string
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		name := unknown.GetSpecifiedName()
		near := fail.Nearest(name, known)
		if other := otherFlags[name]; near == "" && c.Flags().Lookup(other) != nil {
			near = other
		}
		if near != "" && unknown.GetSpecifiedShortnames() == "" {
			return e.Do("did you mean --%s? see %s --help", near, c.CommandPath())
		}
	}
	return e.Do("see %s --help", c.CommandPath())
}
