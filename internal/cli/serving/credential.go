package serving

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
)

func newCredentialCmd(h Host) *cobra.Command {
	c := &cobra.Command{
		Use:   "credential",
		Short: "Add, list and remove credentials for documents",
		Long: `Documents on a server cannot use files and variables of the server's host. They use credentials, which the administrator of
the store adds here: Vault tokens and AppRoles, S3 keys, application credentials, a clouds.yaml, private SSH keys. The store
keeps their values encrypted. Each credential is bound to hosts and to clusters.`,
	}
	c.AddCommand(newCredentialAddCmd(h), newCredentialListCmd(h), newCredentialRemoveCmd(h))
	return c
}

// maxCredential is the size limit of a credential in bytes.
const maxCredential = 1 << 20

func newCredentialAddCmd(h Host) *cobra.Command {
	var cred policy.Credential
	var file string
	var replace bool
	c := &cobra.Command{
		Use:   "add NAME --file FILE --for HOST --clusters CLUSTER [--path PATH]",
		Short: "Add a credential, or replace its value",
		Long: `Add a credential. Its value is read from a file or from standard input (-), and never printed. The value has the format of
the file in credentialsFile or sshKeyFile of the same section; for OpenStack it is a clouds.yaml.

--for names the hosts that may receive the value: HOST (any port), HOST:PORT, or a network such as 10.0.0.0/24 for SSH hosts
and addresses. Only http://HOST:PORT permits a service without TLS. --clusters names the clusters that may use the
credential, also by patterns such as "prod-*". --path limits what they may use it for at the service: mounts of a Vault, or
a bucket or container with a prefix, and all below. {cluster} in it is the name of each cluster. A credential with paths
can be used for nothing else.`,
		Example: "  naupegos server credential add vault-prod --file /root/approle --for vault.example.org:8200 --clusters 'prod-*' --path 'pki/{cluster}'\n" +
			"  naupegos server credential add racks --file ~/.ssh/racks --for 10.0.0.0/24 --clusters lab\n" +
			"  pass show s3 | naupegos server credential add s3 --file - --for s3.example.org --clusters prod-a,prod-b --replace",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cred.Name = args[0]
			value, err := readSecret(file, "--file", cmd.InOrStdin())
			if err != nil {
				return err
			}
			err = h.withCredentials(cmd.Context(), "server credential add "+cred.Name, func(all policy.Credentials) error {
				return all.Add(cmd.Context(), cred, value, replace)
			})
			if err == nil {
				_, err = fmt.Fprintf(h.Out, "Credential %s may be sent to %s, for clusters %s.\n", cred.Name, strings.Join(cred.For, ", "), strings.Join(cred.Clusters, ", "))
			}
			return err
		},
	}
	c.Flags().StringVar(&file, "file", "", "file with the value; - for standard input")
	c.Flags().StringSliceVar(&cred.For, "for", nil, "where the value may be sent: HOST, HOST:PORT, http://HOST:PORT or a network (repeatable)")
	c.Flags().StringSliceVar(&cred.Clusters, "clusters", nil, "clusters whose documents may name it, or patterns (repeatable)")
	c.Flags().StringArrayVar(&cred.Paths, "path", nil, "what the value may be used for at the service: NAMESPACE/MOUNT of a Vault, BUCKET/PREFIX (repeatable; default: everything)")
	c.Flags().BoolVar(&replace, "replace", false, "replace a credential of this name, its hosts, clusters and paths")
	return c
}

// readSecret reads a secret value from the file that a flag names.
func readSecret(file, flag string, in io.Reader) ([]byte, error) {
	switch file {
	case "":
		return nil, fail.New(fail.Invalid, "%s is missing", flag).Do("%s names the file with the value; - reads standard input", flag)
	case "-":
	default:
		f, err := os.Open(file)
		if err != nil {
			return nil, fail.Wrap(fail.Invalid, err, "read %s", flag)
		}
		defer f.Close()
		in = f
	}
	value, err := io.ReadAll(io.LimitReader(in, maxCredential))
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read %s", flag)
	}
	return value, nil
}

// withCredentials calls do with the credentials of the store. Unless action is empty, the audit has the action before and after it.
func (h Host) withCredentials(ctx context.Context, action string, do func(policy.Credentials) error) error {
	return h.withStore(ctx, func(st store.Store) error {
		act := func() (string, error) { return "", do(policy.NewCredentials(st.ServerSecrets())) }
		if action == "" {
			_, err := act()
			return err
		}
		return access.OnHost(ctx, st, action, "", act)
	})
}

func newCredentialListCmd(h Host) *cobra.Command {
	var out output.Format
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the credentials, without their values",
		Example: "  naupegos server credential list",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return h.withCredentials(cmd.Context(), "", func(all policy.Credentials) error {
				list, err := all.List(cmd.Context())
				if err != nil {
					return err
				}
				return out.Print(h.Out, list, func(w io.Writer) error { return credentialTable(w, list) })
			})
		},
	}
	out.Bind(c)
	return c
}

func credentialTable(w io.Writer, all []policy.Credential) error {
	t := output.NewTable(w)
	t.Head("NAME\tFOR\tCLUSTERS\tPATHS\tCHANGED")
	for _, c := range all {
		t.Row("%s\t%s\t%s\t%s\t%s\n", c.Name, strings.Join(c.For, ","), strings.Join(c.Clusters, ","), cmp.Or(strings.Join(c.Paths, ","), "all"), c.Changed.Local().Format(time.DateTime))
	}
	return t.Flush()
}

func newCredentialRemoveCmd(h Host) *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a credential: what runs with it fails at its next step",
		Example: "  naupegos server credential remove vault-prod",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := h.withCredentials(cmd.Context(), "server credential remove "+args[0], func(all policy.Credentials) error { return all.Remove(cmd.Context(), args[0]) })
			if err == nil {
				_, err = fmt.Fprintf(h.Out, "Credential %s is removed.\n", args[0])
			}
			return err
		},
	}
}
