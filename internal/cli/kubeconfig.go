package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/server/access"
)

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
		return access.OnHost(ctx, s.Store, "kubectl "+name, name, func() (_ string, err error) {
			conf, err = s.Cluster.Kubeconfig(ctx)
			return "", err
		})
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
