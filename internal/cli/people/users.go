package people

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cluster"
	"github.com/naupegos/naupegos/internal/kube/access"
)

// NewUsers returns naupegos users.
func NewUsers(h Host) *cobra.Command {
	var out output.Format
	var all bool
	var only output.Selector
	c := &cobra.Command{
		Use:   "users NAME",
		Short: "List who may do what in a cluster, and why",
		Long: `List the users, groups and service accounts that have a role in the cluster: the role, where it applies, the issuer that
vouches for the subject, and who made the binding: the document (spec.identity.bindings), naupegos for the cluster's own
parts, kubernetes, or others. A binding to a role that does not exist is marked: it allows nothing.

Kubernetes' own subjects (system:...) and service accounts of kube-system are left out, except with --all-subjects.`,
		Example: "  naupegos users demo\n  naupegos users demo -l by=others\n  naupegos users demo --all-subjects -o json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			users, err := h.Users(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if !all {
				users.Items = slices.DeleteFunc(users.Items, internal)
			}
			if users.Items, err = output.Select(&only, users.Items); err != nil {
				return err
			}
			return out.Print(h.Out, users, func(w io.Writer) error { return table(w, users) })
		},
	}
	out.Bind(c)
	only.Bind(c)
	c.Flags().BoolVar(&all, "all-subjects", false, "also Kubernetes' own subjects and service accounts of kube-system")
	return c
}

// internal reports whether a grant is to a part of Kubernetes, or of the cluster.
func internal(g access.Grant) bool {
	if g.By == access.ByOthers || g.By == access.ByDocument {
		return false
	}
	return strings.HasPrefix(g.Subject, "system:") || strings.HasPrefix(g.Subject, "kube-system/")
}

func table(w io.Writer, users *cluster.Users) error {
	if len(users.Issuers) == 0 {
		fmt.Fprintln(w, "No issuer is configured: only certificates and tokens of the cluster itself are accepted.")
	}
	for _, i := range users.Issuers {
		fmt.Fprintf(w, "Issuer %s: %q, client %q\n", i.Name, i.URL, i.ClientID)
	}
	fmt.Fprintln(w)
	t := output.NewTable(w)
	t.Head("KIND\tSUBJECT\tISSUER\tROLE\tNAMESPACE\tMADE BY\tBINDING")
	for _, g := range users.Items {
		role := g.Role
		if g.RoleKind == "Role" {
			role = "Role " + role
		}
		if g.Missing {
			role += " (does not exist)"
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Kind, g.Subject, issuerOf(users, g), role, g.Scope(), g.By, g.Binding)
	}
	return t.Flush()
}

// issuerOf names the issuer whose default prefix a subject has.
func issuerOf(users *cluster.Users, g access.Grant) string {
	if g.Kind == "ServiceAccount" {
		return "the cluster"
	}
	for _, i := range users.Issuers {
		if strings.HasPrefix(g.Subject, i.Name+":") {
			return i.Name
		}
	}
	return "-"
}
