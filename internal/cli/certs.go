package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/pki"
)

func newCertsCmd(a *App) *cobra.Command {
	c := &cobra.Command{Use: "certs", Short: "Certificates of a cluster"}
	c.AddCommand(newCertsListCmd(a), newCertsRotateCmd(a))
	return c
}

func newCertsListCmd(a *App) *cobra.Command {
	var out output
	c := &cobra.Command{
		Use:   "list NAME",
		Short: "List every certificate with its expiry",
		Long: `List the authorities and every certificate that Naupegos issued for the cluster, the ones that expire first on top.
Certificates are renewed by naupegos apply once their renewal date is past; kubelets rotate their own.`,
		Example: "  naupegos certs list demo\n  naupegos certs list demo -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onCluster(cmd.Context(), args[0], sessionOptions{readOnly: true}, func(s *session) error {
				certs, err := s.Cluster.Certificates(cmd.Context())
				if err != nil {
					return err
				}
				return out.print(a.Out, certs, func(w io.Writer) error { return certTable(w, certs, time.Now()) })
			})
		},
	}
	out.bind(c)
	return c
}

func certTable(w io.Writer, certs []pki.CertInfo, now time.Time) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "CERTIFICATE\tAUTHORITY\tUSE\tEXPIRES\tLEFT\tRENEWED FROM")
	for _, c := range certs {
		use, renew := strings.Join(c.Usages, ", "), "-"
		if c.CA {
			use = "authority"
		} else {
			renew = c.RenewAt.Format(time.DateOnly)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%dd\t%s\n", c.Name, c.Authority, use, c.NotAfter.Format(time.DateOnly), int(c.NotAfter.Sub(now).Hours()/24), renew)
	}
	return t.Flush()
}
