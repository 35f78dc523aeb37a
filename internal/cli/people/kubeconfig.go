// Package people holds the verbs about people who use a cluster's API: kubeconfig and users.
package people

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/userconf"
	"github.com/naupegos/naupegos/internal/operate"
)

// Host gives these commands access to the program's flags, streams and store.
type Host struct {
	Out        io.Writer
	Kubeconfig func(ctx context.Context, name string, who operate.KubeconfigFor) (*operate.Files, error)
	Entrance   func(ctx context.Context, name string) (*cluster.Entrance, error)
	Users      func(ctx context.Context, name string) (*cluster.Users, error)
}

// NewKubeconfig returns naupegos kubeconfig.
func NewKubeconfig(h Host) *cobra.Command {
	var f kubeconfigFlags
	c := &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print a kubeconfig, write it to a file, or merge it into yours",
		Long: `Print a kubeconfig that makes its holder an administrator of the cluster. It contains a private key: keep it where
only you can read it. --file writes it to a file of mode 0600, replacing the file if it exists.

--user creates a kubeconfig for a person or a program instead: with a certificate and a key of its own, in the groups
that --group names, valid for --ttl. It allows what RoleBindings and ClusterRoleBindings grant to the user or the
groups, which at first is nothing; the audit log records the user's name. Kubernetes can't revoke a certificate: keep
the time short.

--exec writes a kubeconfig without any secret, for all users of an issuer in spec.identity.issuers: kubectl runs naupegos
get-token, which signs them in. It can be given to anybody, and needs nothing but the naupegos program.

The context is named after the cluster (USER@NAME with --user, ISSUER@NAME with --exec).

--merge adds it to the file that kubectl uses: the first of $KUBECONFIG that exists, else ~/.kube/config. The context becomes the
current one; other clusters, users and contexts are kept. If another context uses a cluster entry of this name, --merge refuses.`,
		Example: `  naupegos kubeconfig demo --merge && kubectl get nodes
  naupegos kubeconfig demo --file demo.kubeconfig && kubectl --kubeconfig demo.kubeconfig get nodes
  naupegos kubeconfig demo --user ann --group developers --ttl 8h --file ann.kubeconfig
  naupegos kubeconfig demo --exec --merge && kubectl get nodes`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return h.kubeconfig(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().StringVar(&f.file, "file", "", "write it to this file (mode 0600) instead of standard output")
	c.Flags().BoolVar(&f.merge, "merge", false, "merge it into $KUBECONFIG or ~/.kube/config, and make it the current context")
	c.Flags().StringVar(&f.user, "user", "", "user name, as RoleBindings refer to it (default the administrator)")
	c.Flags().StringSliceVar(&f.groups, "group", nil, "group of the user (repeatable)")
	c.Flags().DurationVar(&f.ttl, "ttl", 8*time.Hour, "how long the certificate of --user is valid, at most 8760h")
	c.Flags().BoolVar(&f.exec, "exec", false, "without a secret: kubectl signs its user in with an issuer of the cluster")
	c.Flags().StringVar(&f.issuer, "issuer", "", "with --exec: the issuer's name, if the cluster has several")
	return c
}

// kubeconfigFlags define the user and the destination of a kubeconfig.
type kubeconfigFlags struct {
	file   string
	merge  bool
	user   string // empty: the administrator
	groups []string
	ttl    time.Duration
	exec   bool
	issuer string
}

func (f *kubeconfigFlags) check(c *cobra.Command) error {
	if f.merge && f.file != "" {
		return fail.New(fail.Invalid, "--merge and --file exclude each other").Do("KUBECONFIG=%s with --merge merges into that file", f.file)
	}
	if f.exec && (f.user != "" || len(f.groups) > 0) {
		return fail.New(fail.Invalid, "--exec and --user exclude each other: the issuer says who the user is, and in which groups")
	}
	if f.issuer != "" && !f.exec {
		return fail.New(fail.Invalid, "--issuer needs --exec")
	}
	if f.user == "" && (c.Flags().Changed("user") || c.Flags().Changed("group") || c.Flags().Changed("ttl")) {
		return fail.New(fail.Invalid, "--group and --ttl need --user").Do("name whose kubeconfig it is: --user ann")
	}
	if f.user == "" {
		return nil
	}
	return f.whose().Check()
}

// whose returns the user as a server's request.
func (f *kubeconfigFlags) whose() *operate.KubeconfigFor {
	if f.user == "" {
		return &operate.KubeconfigFor{}
	}
	return &operate.KubeconfigFor{User: f.user, Groups: f.groups, Seconds: int((f.ttl + time.Second - 1) / time.Second)}
}

// owner describes the kubeconfig's user.
func (f *kubeconfigFlags) owner() string {
	switch {
	case f.exec:
		return "for users who sign in"
	case f.user == "":
		return "administrator"
	}
	return fmt.Sprintf("user %s for %s", f.user, f.ttl)
}

func (h Host) kubeconfig(ctx context.Context, name string, f *kubeconfigFlags) error {
	conf, user, err := h.content(ctx, name, f)
	if err != nil {
		return err
	}
	if f.merge {
		path, replaced, other, err := userconf.Merge(conf, name, user)
		if err != nil {
			return err
		}
		done := "added"
		if replaced {
			done = "replaced"
		}
		if other != "" {
			done = fmt.Sprintf("replaced (it led to another cluster, at %s)", other)
		}
		_, err = fmt.Fprintf(h.Out, "context %s %s in %s; it is the current one\n", userconf.ContextName(name, user), done, path)
		return err
	}
	if conf, err = userconf.Name(conf, name, user); err != nil {
		return err
	}
	if f.file != "" {
		if err := connect.WritePrivate(f.file, func(w io.Writer) error { _, err := w.Write(conf); return err }); err != nil {
			return fail.Wrap(fail.KindOf(err), err, "write the kubeconfig of cluster %s", name)
		}
		_, err := fmt.Fprintf(h.Out, "%s (mode 0600): %s of cluster %s\n", f.file, f.owner(), name)
		return err
	}
	_, err = h.Out.Write(conf)
	return err
}

// content returns the kubeconfig, and its user for the context's name.
func (h Host) content(ctx context.Context, name string, f *kubeconfigFlags) (conf []byte, user string, err error) {
	if !f.exec {
		files, err := h.Kubeconfig(ctx, name, *f.whose())
		if err != nil {
			return nil, "", err
		}
		return files.Files[operate.Kubeconfig], f.user, nil
	}
	e, err := h.Entrance(ctx, name)
	if err != nil {
		return nil, "", err
	}
	i, err := e.Choose(name, f.issuer)
	if err != nil {
		return nil, "", err
	}
	conf, err = userconf.Exec(name, e.Server, e.CA, i.Name, userconf.Login{Issuer: i.URL, ClientID: i.ClientID, Scopes: i.Scopes, CA: i.CA, Port: i.Port})
	return conf, i.Name, err
}
