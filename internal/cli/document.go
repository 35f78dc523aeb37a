package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

func newValidateCmd(a *App) *cobra.Command {
	var file string
	var out output
	c := &cobra.Command{
		Use:   "validate -f FILE",
		Short: "Check a document and show every error at once",
		Long: `Check a Cluster document: syntax, keys, types, and what must fit together. Every error is shown with its line, its field
and what to do. Nothing outside of the document is looked at.`,
		Example: "  naupegos validate -f cluster.yaml\n  naupegos validate -f cluster.yaml -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, _, err := a.readDocument(file)
			var errs v1alpha1.Errors
			if err != nil && !errors.As(err, &errs) {
				return err
			}
			if errs == nil {
				errs = v1alpha1.Errors{}
			}
			if perr := out.print(a.Out, errs, func(w io.Writer) error { return errorList(w, file, errs) }); perr != nil {
				return perr
			}
			if len(errs) > 0 {
				return exitCode(fail.Invalid.ExitCode())
			}
			return nil
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	out.bind(c)
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
		Short: "Print the document that was applied last",
		Long: `Print the Cluster document as the store has it: what the last apply carried out, with what naupegos node add and remove
changed since. naupegos plan says where your file differs from it.`,
		Example: "  naupegos document demo > cluster.yaml\n  naupegos document demo | diff cluster.yaml -",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			st, err := a.viewStore(cmd.Context())
			if err != nil {
				return err
			}
			defer st.Close()
			rec, err := st.Cluster(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			_, err = a.Out.Write(rec.Document)
			return err
		},
	}
}

func newSchemaCmd(a *App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the Cluster document",
		Long: `Print the JSON Schema, by which editors complete and check documents. In an editor with yaml-language-server, begin the
document with:  # yaml-language-server: $schema=naupegos.schema.json`,
		Example: "  naupegos schema > naupegos.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b, err := v1alpha1.Schema()
			if err != nil {
				return err
			}
			_, err = a.Out.Write(b)
			return err
		},
	}
}
