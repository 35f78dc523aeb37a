// Package differ implements the verb diff, which compares a document with its cluster and prints only the differences.
//
// It reads plans, which its host makes.
package differ

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/plan/delta"
	"github.com/naupegos/naupegos/internal/plan/show"
)

// Host holds the parts of the operator's command that the verb needs.
type Host struct {
	Out, Err io.Writer
	Color    func(io.Writer) bool
	// Plan plans apply for the document in a file or, without one, for the stored document of the cluster name. later describes parts that it could not see.
	Plan     func(ctx context.Context, file, name string) (p *plan.Plan, later string, err error)
	Machines func(ctx context.Context, name string) ([]string, error) // of a stored cluster
	Differs  error                                                    // returned if there are differences
}

// differences is the output of diff for programs.
type differences struct {
	Cluster  string        `json:"cluster"`
	Differs  bool          `json:"differs"`
	Document []delta.Delta `json:"document"` // fields that differ from the last applied document
	Parts    []part        `json:"parts"`    // differences between the cluster and the document
}

// part is one machine, or the resources of the whole cluster.
type part struct {
	Name        string        `json:"name"` // the machine's name, or "cluster"
	Differences []delta.Delta `json:"differences"`
	Steps       []string      `json:"steps,omitempty"` // further actions of apply, for people
}

// New returns the verb.
func New(h Host) *cobra.Command {
	var file, machine string
	var out output.Format
	c := &cobra.Command{
		Use:   "diff [NAME]",
		Short: "Show where a cluster differs from its document",
		Long: `Compare a document with its cluster and print the differences alone: fields of the document, lines of files, units,
labels and taints, packages, objects and addons. Nothing is changed. Without -f, the stored document of the cluster
NAME is compared, so that all differences are changes that were made outside of naupegos; a file that changed after the
last run is marked with the time of its change. Contents of secrets are never shown.

Exit status: 0 if nothing differs, 2 if anything does, any other on errors.`,
		Example: "  naupegos diff demo\n  naupegos diff -f cluster.yaml\n  naupegos diff demo --machine demo-general-1 -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			if (name == "") == (file == "") {
				return fail.New(fail.Invalid, "diff needs either a cluster's NAME or -f FILE").Do("naupegos diff NAME compares the stored document, naupegos diff -f FILE another one")
			}
			p, later, err := h.Plan(cmd.Context(), file, name)
			if err != nil {
				return err
			}
			if machine != "" {
				if p, err = h.only(cmd.Context(), p, machine); err != nil {
					return err
				}
			}
			return h.print(p, later, &out)
		},
	}
	c.Flags().StringVarP(&file, "file", "f", "", "the Cluster document; - for standard input")
	c.Flags().StringVar(&machine, "machine", "", "compare this machine alone")
	out.Bind(c)
	return c
}

// only reduces a plan to the steps of one machine. It removes the document's differences.
func (h Host) only(ctx context.Context, p *plan.Plan, machine string) (*plan.Plan, error) {
	full := p.Cluster + "-" + machine
	one := *p
	one.Document = nil
	one.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s *plan.Step) bool { return s.Subject != machine && s.Subject != full })
	if len(one.Steps) > 0 {
		return &one, nil
	}
	names, err := h.Machines(ctx, p.Cluster)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, machine) && !slices.Contains(names, full) {
		return nil, fail.New(fail.NotFound, "cluster %s has no machine %s", p.Cluster, machine).Do("naupegos machine list %s names them", p.Cluster)
	}
	return &one, nil
}

func (h Host) print(p *plan.Plan, later string, out *output.Format) error {
	d := of(p)
	for _, text := range append(slices.Clone(p.Warnings), later) {
		if text == "" {
			continue
		}
		if _, err := fmt.Fprintln(h.Err, text); err != nil {
			return err
		}
	}
	err := out.Print(h.Out, d, func(w io.Writer) error { return show.WriteDiff(w, p, show.Look{Color: h.Color(w), Hunks: true}) })
	if err == nil && d.Differs {
		return h.Differs
	}
	return err
}

// of collects the differences in a plan.
func of(p *plan.Plan) differences {
	d := differences{Cluster: p.Cluster, Document: p.Document, Parts: []part{}}
	if d.Document == nil {
		d.Document = []delta.Delta{}
	}
	at := map[string]int{}
	for _, s := range show.Different(p) {
		i, ok := at[s.Subject]
		if !ok {
			i = len(d.Parts)
			at[s.Subject] = i
			d.Parts = append(d.Parts, part{Name: s.Subject, Differences: []delta.Delta{}})
		}
		if d.Parts[i].Differences = append(d.Parts[i].Differences, s.Deltas...); len(s.Deltas) == 0 {
			d.Parts[i].Steps = append(d.Parts[i].Steps, s.Title)
		}
	}
	d.Differs = len(d.Document)+len(d.Parts) > 0
	return d
}
