package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/describe"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
)

func newValidateCmd(a *App) *cobra.Command {
	var file string
	var out output.Format
	c := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check a document and report all errors at once",
		Long: `Check a Cluster document: its syntax, keys and types, and whether its fields fit together. Each error is reported
with its line, its field and what to do. Nothing but the document and its Kubernetes release is checked: naupegos
doctor -f FILE checks whether the provider can serve it.`,
		Example: "  naupegos validate -f cluster.yaml\n  naupegos validate -f cluster.yaml -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			doc, data, err := a.readDocument(file)
			if err == nil {
				err = bundles.CheckLocated(cmd.Context(), doc, shownFile(file), data)
			}
			var errs v1alpha1.Errors
			if err != nil && !errors.As(err, &errs) {
				return err
			}
			if errs == nil {
				errs = v1alpha1.Errors{}
			}
			if perr := out.Print(a.Out, errs, func(w io.Writer) error { return errorList(w, shownFile(file), errs) }); perr != nil {
				return perr
			}
			if len(errs) > 0 {
				return exitCode(fail.Invalid.ExitCode())
			}
			return nil
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	out.Bind(c)
	return c
}

func errorList(w io.Writer, file string, errs v1alpha1.Errors) error {
	if len(errs) == 0 {
		_, err := fmt.Fprintf(w, "%s is valid.\n", file)
		return err
	}
	for _, e := range errs {
		if _, err := fmt.Fprintln(w, e.Error()); err != nil {
			return err
		}
	}
	return nil
}

func newDocumentCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "document NAME",
		Short: "Print a cluster's document as it was last applied",
		Long: `Print the Cluster document that is stored for a cluster: the one that was last applied, with the changes that
naupegos node add, node remove and upgrade made since. naupegos diff -f FILE shows where your file differs from it.`,
		Example: "  naupegos document demo > cluster.yaml\n  naupegos document demo | diff cluster.yaml -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := lastApplied(cmd.Context(), a, args[0])
			if err != nil {
				return err
			}
			_, err = a.Out.Write(data)
			return err
		},
	}
}

// lastApplied returns the stored document of a cluster, from the server if one is named.
func lastApplied(ctx context.Context, a *App, name string) ([]byte, error) {
	if c, err := a.server(); err != nil {
		return nil, err
	} else if c != nil {
		return c.Document(ctx, name)
	}
	st, err := a.viewStore(ctx)
	if err != nil {
		return nil, err
	}
	defer st.Close()
	rec, err := st.Cluster(ctx, name)
	if err != nil {
		return nil, err
	}
	return rec.Document, nil
}

func newSchemaCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the Cluster document",
		Long: `Print the JSON Schema that lets editors complete and check Cluster documents. In an editor with
yaml-language-server, begin the document with:  # yaml-language-server: $schema=naupegos.schema.json`,
		Example: "  naupegos schema > naupegos.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := describe.Schema()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(b)
			return err
		},
	}
}

func newExplainCmd(a *App) *cobra.Command {
	var recursive bool
	c := &cobra.Command{
		Use:   "explain [FIELD]",
		Short: "Describe a field of the Cluster document",
		Long: `Describe a field of the Cluster document: what it is for, its type, its default, what changing it does to a running
cluster, and the fields below it. FIELD is a path as error messages print it, such as spec.workers or
spec.workers[0].taints. Without FIELD, describe the document itself.`,
		Example: "  naupegos explain spec\n  naupegos explain spec.endpoint.gateways\n  naupegos explain spec --recursive",
		Args:    cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return describe.FieldPaths(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := describe.Explain(strings.Join(args, ""), recursive) // at most one
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.Out, text)
			return err
		},
	}
	c.Flags().BoolVar(&recursive, "recursive", false, "list the fields below those, too, without descriptions")
	return c
}
