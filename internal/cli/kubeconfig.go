package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cluster/connect"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/operate"
)

func newKubeconfigCmd(a *App) *cobra.Command {
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

The context is named after the cluster (USER@NAME with --user).

--merge adds it to the file that kubectl uses: the first one in $KUBECONFIG, else ~/.kube/config. The context becomes the current one; other clusters, users and contexts are kept.`,
		Example: `  naupegos kubeconfig demo --merge && kubectl get nodes
  naupegos kubeconfig demo --file demo.kubeconfig && kubectl --kubeconfig demo.kubeconfig get nodes
  naupegos kubeconfig demo --user ann --group developers --ttl 8h --file ann.kubeconfig`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.kubeconfig(cmd.Context(), args[0], &f)
		},
	}
	c.Flags().StringVar(&f.file, "file", "", "write it to this file (mode 0600) instead of standard output")
	c.Flags().BoolVar(&f.merge, "merge", false, "merge it into $KUBECONFIG or ~/.kube/config, and make it the current context")
	c.Flags().StringVar(&f.user, "user", "", "user name, as RoleBindings refer to it (default the administrator)")
	c.Flags().StringSliceVar(&f.groups, "group", nil, "group of the user (repeatable)")
	c.Flags().DurationVar(&f.ttl, "ttl", 8*time.Hour, "how long the certificate of --user is valid, at most 8760h")
	return c
}

// kubeconfigFlags define the user and the destination of a kubeconfig.
type kubeconfigFlags struct {
	file   string
	merge  bool
	user   string // empty: the administrator
	groups []string
	ttl    time.Duration
}

func (f *kubeconfigFlags) check(c *cobra.Command) error {
	if f.merge && f.file != "" {
		return fail.New(fail.Invalid, "--merge and --file exclude each other").Do("KUBECONFIG=%s with --merge merges into that file", f.file)
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
	return &operate.KubeconfigFor{User: f.user, Groups: f.groups, Seconds: seconds(f.ttl)}
}

// owner describes the kubeconfig's user.
func (f *kubeconfigFlags) owner() string {
	if f.user == "" {
		return "administrator"
	}
	return fmt.Sprintf("user %s for %s", f.user, f.ttl)
}

func (a *App) kubeconfig(ctx context.Context, name string, f *kubeconfigFlags) error {
	files, err := see(ctx, a, name, operate.KubeconfigView, *f.whose())
	if err != nil {
		return err
	}
	conf := files.Files[operate.Kubeconfig]
	if f.merge {
		path, replaced, err := kube.MergeKubeconfig(conf, name, f.user)
		if err != nil {
			return err
		}
		done := "added"
		if replaced {
			done = "replaced"
		}
		_, err = fmt.Fprintf(a.Out, "context %s %s in %s; it is the current one\n", kube.ContextName(name, f.user), done, path)
		return err
	}
	if conf, err = kube.NameContext(conf, name, f.user); err != nil {
		return err
	}
	if f.file != "" {
		if err := connect.WritePrivate(f.file, func(w io.Writer) error { _, err := w.Write(conf); return err }); err != nil {
			return fail.Wrap(fail.KindOf(err), err, "write the kubeconfig of cluster %s", name)
		}
		_, err := fmt.Fprintf(a.Out, "%s (mode 0600): %s of cluster %s\n", f.file, f.owner(), name)
		return err
	}
	_, err = a.Out.Write(conf)
	return err
}

func newKubectlCmd(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "kubectl NAME -- ARGS...",
		Short: "Run the bundle's kubectl as the cluster's administrator",
		Long: `Run the kubectl of the cluster's own Kubernetes release, with the credentials of an administrator. You need not
install kubectl, and no kubeconfig is written: kubectl reads it from memory. Everything after NAME is passed to
kubectl unchanged; the exit status is kubectl's.`,
		Example: `  naupegos kubectl demo -- get nodes -o wide
  naupegos kubectl demo get pods --all-namespaces
  naupegos kubectl demo -- exec -it web-0 -- sh
  kubectl kustomize . | naupegos kubectl demo -- apply -f -`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rest := args[1:]
			if rest[0] == "--" {
				rest = rest[1:]
			}
			return a.kubectl(cmd.Context(), args[0], rest)
		},
	}
	c.Flags().SetInterspersed(false) // flags after NAME are kubectl's
	return c
}

// kubectl replaces this process by the bundle's kubectl, so that terminal, signals and exit status are kubectl's own.
func (a *App) kubectl(ctx context.Context, name string, args []string) error {
	var program string
	var conf []byte
	err := a.onCluster(ctx, name, sessionOptions{readOnly: true, bundle: bundles.IfHere}, func(s *session) (err error) {
		if s.Bundle == nil {
			return fail.New(fail.NotFound, "the bundle that holds kubectl is not on this machine").
				Do("naupegos bundle build makes it; or use your own kubectl after naupegos kubeconfig %s --merge", name)
		}
		binary, err := s.Bundle.Binary("kubectl")
		if err != nil {
			return err
		}
		program = s.Bundle.Path(binary.Digest)
		conf, err = s.Cluster.Kubeconfig(ctx)
		return err
	})
	if err != nil {
		return err
	}
	path, err := inMemory("kubeconfig", conf)
	if err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KUBECONFIG=") })
	err = unix.Exec(program, append([]string{"kubectl"}, args...), append(env, "KUBECONFIG="+path))
	return fail.Wrap(fail.Internal, err, "run kubectl").At(program).Do("naupegos bundle verify checks the bundle")
}

// inMemory puts data into a file in memory, which vanishes with the last process that has it open, and which no other user can open. It returns
// the path under which this process and its children, or its successor after exec, can read it.
func inMemory(name string, data []byte) (string, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_ALLOW_SEALING)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "make a file in memory for the %s", name)
	}
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return "", fail.Wrap(fail.Internal, err, "write the %s to memory", name)
		}
		data = data[max(n, 0):]
	}
	seals := unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return "", fail.Wrap(fail.Internal, err, "protect the %s in memory", name)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}
