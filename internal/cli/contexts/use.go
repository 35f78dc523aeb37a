package contexts

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
)

// Host holds the parts of the operator's command that naupegos use needs.
type Host struct {
	Out      io.Writer
	Flags    *Flags
	Clusters func(context.Context) ([]string, error) // names the clusters of the context in use
}

// NewUse returns naupegos use.
func NewUse(h Host) *cobra.Command {
	var add, remove, token, cluster string
	var none bool
	var out output.Format
	c := &cobra.Command{
		Use:   "use [CLUSTER | CONTEXT | CONTEXT/CLUSTER | -]",
		Short: "Choose the cluster and the context that other commands take by default",
		Long: `Choose the cluster that stands in for NAME in other commands, and the context that says where clusters are kept: a
server, a team's database, or a state directory. Without an argument, list the contexts. "-" goes back to the last choice.

Commands that end data (destroy, reset, release, backup restore, backup prune, etcd recover) still want NAME.

Contexts lie in $XDG_CONFIG_HOME/naupegos/config.yaml (mode 0600), which never holds a token, only the path of a file with
one. Each setting is taken from the first that has it: a flag; the environment ($NAUPEGOS_SERVER, $NAUPEGOS_STORE,
$NAUPEGOS_CONTEXT, $NAUPEGOS_CLUSTER, and so on); the context. If a flag or the environment names another server, store or
state directory, nothing of the context is used.

--add makes a context of --server, --server-ca, --token-file, --store, --state-dir and --cluster, or replaces it.`,
		Example: `  naupegos use demo && naupegos status
  naupegos use --add prod --server https://naupegos.example.com:8443 --server-ca prod-ca.crt --token-file ~/.config/naupegos/prod-token
  naupegos use prod/shop
  naupegos use -`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if n := len(args) + btoi(add != "") + btoi(remove != "") + btoi(none); n > 1 {
				return fail.New(fail.Invalid, "a choice, --add, --remove and --none exclude each other").Do("give one of them")
			}
			if add == "" && (token != "" || cluster != "") {
				return fail.New(fail.Invalid, "--token-file and --cluster need --add").Do("naupegos use CONTEXT/CLUSTER chooses a cluster")
			}
			f, err := Read(cmp.Or(h.Flags.path, Path()))
			if err != nil {
				return err
			}
			switch {
			case add != "":
				return h.add(f, Context{Name: add, Server: h.Flags.Server, ServerCA: h.Flags.CA, TokenFile: token, Store: *h.Flags.Store, StateDir: *h.Flags.StateDir, Cluster: cluster})
			case remove != "":
				return h.remove(f, remove)
			case none:
				return h.choose(f, Selection{Context: cmp.Or(f.Current, own)})
			case len(args) == 0:
				return h.list(f, &out)
			case args[0] == "-":
				if f.Previous == nil {
					return fail.New(fail.Invalid, "there is no choice to go back to").Do("naupegos use lists the contexts")
				}
				return h.choose(f, *f.Previous)
			}
			s, err := h.find(cmd.Context(), f, args[0])
			if err != nil {
				return err
			}
			return h.choose(f, s)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			f, err := Read(cmp.Or(h.Flags.path, Path()))
			if err != nil || len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			clusters, _ := h.Clusters(cmd.Context()) // completion can't report an error
			return append(clusters, f.names()...), cobra.ShellCompDirectiveNoFileComp
		},
	}
	c.Flags().StringVar(&add, "add", "", "add a context of this name, or replace it")
	c.Flags().StringVar(&remove, "remove", "", "remove the context of this name")
	c.Flags().StringVar(&token, "token-file", "", "with --add: file of mode 0600 that holds the token for the server")
	c.Flags().StringVar(&cluster, "cluster", "", "with --add: the context's default cluster")
	c.Flags().BoolVar(&none, "none", false, "choose no cluster: commands want NAME again")
	out.Bind(c)
	return c
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// listed is the output of naupegos use without an argument.
type listed struct {
	Current  string    `json:"current"`           // the context in use
	Cluster  string    `json:"cluster,omitempty"` // the cluster in use
	From     string    `json:"from"`              // the setting that chose the context
	Contexts []Context `json:"contexts"`
}

func (h Host) list(f *File, out *output.Format) error {
	now, err := h.Flags.Now()
	if err != nil {
		return err
	}
	cluster, _, err := h.Flags.Cluster()
	if err != nil {
		return err
	}
	at, place := h.Flags.given()
	l := listed{Current: now.Name, Cluster: cluster, From: "naupegos use", Contexts: f.Contexts}
	if now.Name == "" {
		l.From = at
	} else if os.Getenv("NAUPEGOS_CONTEXT") != "" {
		l.From = "$NAUPEGOS_CONTEXT"
	}
	if h.Flags.Context != "" {
		l.From = "--context"
	}
	if f.context(own) == nil {
		l.Contexts = append([]Context{{Name: own}}, l.Contexts...)
	}
	return out.Print(h.Out, l, func(w io.Writer) error {
		t := output.NewTable(w)
		t.Head("IN USE\tCONTEXT\tCLUSTER\tWHERE")
		for i := range l.Contexts {
			c, mark := &l.Contexts[i], ""
			if c.Name == now.Name {
				mark, c.Cluster = "*", cluster
			}
			t.Row("%s\t%s\t%s\t%s\n", mark, c.Name, output.Dash(c.Cluster), c.place())
		}
		if err := t.Flush(); err != nil || now.Name != "" {
			return err
		}
		_, err := fmt.Fprintf(w, "%s names %s: no context is used.\n", at, place)
		return err
	})
}

// add adds a context to the file, with absolute paths. The first context becomes the current one.
func (h Host) add(f *File, c Context) error {
	if strings.Contains(c.Name, "/") {
		return fail.New(fail.Invalid, "%q is no name of a context", c.Name).Do("a slash parts a context from a cluster")
	}
	for _, path := range []*string{&c.ServerCA, &c.TokenFile, &c.StateDir} {
		if *path == "" {
			continue
		}
		abs, err := filepath.Abs(*path)
		if err != nil {
			return fail.Wrap(fail.Invalid, err, "find %s", *path)
		}
		*path = abs
	}
	if err := c.Check(); err != nil {
		return err
	}
	for _, file := range []string{c.ServerCA, c.TokenFile} {
		if _, err := os.Stat(file); file != "" && err != nil {
			return fail.Wrap(fail.Invalid, err, "add context %s", c.Name)
		}
	}
	done := "added"
	if at := f.context(c.Name); at != nil {
		*at, done = c, "replaced"
	} else {
		f.Contexts = append(f.Contexts, c)
	}
	use := fmt.Sprintf("naupegos use %s chooses it", c.Name)
	if f.Current == "" && len(f.Contexts) == 1 {
		f.Current, use = c.Name, "it is in use"
	}
	if err := f.write(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(h.Out, "Context %s %s; %s.\n", c.Name, done, use)
	return err
}

func (h Host) remove(f *File, name string) error {
	if f.context(name) == nil {
		return fail.New(fail.NotFound, "there is no context %q%s", name, f.known(name))
	}
	f.Contexts = slices.DeleteFunc(f.Contexts, func(c Context) bool { return c.Name == name })
	after := ""
	if f.Current == name {
		f.Current, after = "", "; this user's own store is in use"
	}
	if f.Previous != nil && f.Previous.Context == name {
		f.Previous = nil
	}
	if err := f.write(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(h.Out, "Context %s is removed%s.\n", name, after)
	return err
}

// find resolves the user's argument: a context, a cluster, or a cluster of a context.
func (h Host) find(ctx context.Context, f *File, asked string) (Selection, error) {
	if at, cluster, both := strings.Cut(asked, "/"); both {
		if f.context(at) == nil && at != own {
			return Selection{}, fail.New(fail.NotFound, "there is no context %q%s", at, f.known(at))
		}
		h.Flags.Context = at
		h.Flags.Forget()
		s := Selection{Context: at, Cluster: cluster}
		return s, h.exists(ctx, cluster)
	}
	known := f.context(asked)
	if known == nil && asked == own {
		known = &Context{Name: own}
	}
	now := cmp.Or(f.Current, own)
	if known != nil {
		// If the server does not answer, the context can still be left: no cluster conflicts with its name then.
		if clusters, err := h.Clusters(ctx); err == nil && slices.Contains(clusters, asked) {
			return Selection{}, fail.New(fail.Invalid, "%s is a context and a cluster", asked).Do("naupegos use %s/%s chooses the cluster, naupegos use %s/%s the context", now, asked, asked, known.Cluster)
		}
		return Selection{Context: asked, Cluster: known.Cluster}, nil
	}
	current, err := h.Flags.Now()
	if err != nil {
		return Selection{}, err
	}
	if current.Name == "" {
		at, place := h.Flags.given()
		return Selection{}, fail.New(fail.Invalid, "%s names %s, which is no context", at, place).Do("naupegos use --add NAME makes one of it; or export NAUPEGOS_CLUSTER=%s", asked)
	}
	if err := h.exists(ctx, asked); err != nil {
		return Selection{}, err
	}
	return Selection{Context: current.Name, Cluster: asked}, nil
}

// exists returns fail.NotFound for a cluster that the context in use does not have.
func (h Host) exists(ctx context.Context, cluster string) error {
	if cluster == "" {
		return nil
	}
	all, err := h.Clusters(ctx)
	if err != nil || slices.Contains(all, cluster) {
		return err
	}
	now, err := h.Flags.Now()
	if err != nil {
		return err
	}
	e := fail.New(fail.NotFound, "there is no cluster or context of this name in context %s", now.Name).At(cluster)
	if near := fail.Nearest(cluster, all); near != "" {
		return e.Do("did you mean %s?", near)
	}
	if len(all) == 0 {
		return e.Do("there are no clusters in %s", now.place())
	}
	return e.Do("known clusters: %s", strings.Join(all, ", "))
}

// choose writes a selection, and records the previous one.
func (h Host) choose(f *File, s Selection) error {
	before := Selection{Context: cmp.Or(f.Current, own)}
	if at := f.context(before.Context); at != nil {
		before.Cluster = at.Cluster
	}
	at := f.context(s.Context)
	if at == nil {
		if s.Context != own {
			return fail.New(fail.NotFound, "there is no context %q%s", s.Context, f.known(s.Context))
		}
		f.Contexts = append(f.Contexts, Context{Name: own})
		at = &f.Contexts[len(f.Contexts)-1]
	}
	at.Cluster, f.Current = s.Cluster, s.Context
	if before != s {
		f.Previous = &before
	}
	if err := f.write(); err != nil {
		return err
	}
	cluster := "no cluster"
	if s.Cluster != "" {
		cluster = "cluster " + s.Cluster
	}
	_, err := fmt.Fprintf(h.Out, "In use: context %s (%s), %s.\n", s.Context, at.place(), cluster)
	return err
}
