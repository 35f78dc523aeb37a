package bundling

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/bundle/images"
	"github.com/naupegos/naupegos/internal/chart"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/siteset"
)

// addingChart is one call of naupegos bundle add chart.
type addingChart struct {
	adding
	release chart.Release
	files   []string // with values
	values  []string // KEY=VALUE
}

func (b *bundleCmd) addChartCmd() *cobra.Command {
	a := &addingChart{adding: adding{bundleCmd: b}}
	c := &cobra.Command{
		Use:   "chart DIR|FILE.tgz|oci://REGISTRY/PATH:VERSION",
		Short: "Add the images that a Helm chart uses",
		Long: `Render a Helm chart, with its values and without access to a cluster, and add the images of its objects and hooks as
naupegos bundle add manifest does. Pass the values of spec.charts, because they determine the chart's
images.

The command prints images that it can't be sure of, and does not add them: images in arguments and other texts, of test hooks,
and images that the chart's author lists (artifacthub.io/images) but no object names. An operator may start more images,
which no chart tells.`,
		Example: `  naupegos bundle add chart charts/shop --values values/shop.yaml --pin
  naupegos bundle add chart shop-1.4.0.tgz --value image.tag=v3 --value metrics.enabled=true
  naupegos bundle add chart oci://registry.example.org/charts/shop:1.4.0 --pin`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.run(cmd.Context(), args[0]) },
	}
	f := c.Flags()
	f.StringArrayVarP(&a.files, "values", "f", nil, "file with values (repeatable; a later one overrides an earlier one)")
	f.StringArrayVar(&a.values, "value", nil, "value as KEY=VALUE, as of helm --set; overrides --values (repeatable)")
	f.StringVar(&a.release.Namespace, "namespace", "default", "namespace of the release")
	f.StringVar(&a.release.Name, "name", "", "name of the release (default: the chart's)")
	f.StringVar(&a.release.Kubernetes, "kubernetes", release.Default, "Kubernetes version that the chart is rendered for")
	return a.bindPin(c)
}

func (a *addingChart) run(ctx context.Context, path string) error {
	if strings.Contains(a.options.Set, "=") {
		return fail.New(fail.Invalid, "--set names a set of images, and %q is a value of the chart", a.options.Set).Do("give values as --value %s", a.options.Set)
	}
	if _, ok := release.Parse(a.release.Kubernetes); !ok {
		return fail.New(fail.Invalid, "%q is not a Kubernetes version", a.release.Kubernetes).Do("write it as %s", release.Default)
	}
	if err := a.access(); err != nil {
		return err
	}
	if err := a.readValues(); err != nil {
		return err
	}
	files, err := a.read(ctx, path)
	if err != nil {
		return err
	}
	look, err := chart.LookInto(files, a.release)
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "find the images of %s", path)
	}
	var found, tests images.Scanned
	for _, d := range look.Documents {
		to := &found
		if d.Test {
			to = &tests
		}
		if err := to.ScanMade(d.Where, d.JSON); err != nil {
			return err
		}
	}
	for _, object := range look.LookedUp {
		fmt.Fprintf(a.app.Err, "not known: the chart asks the cluster for %s; images that depend on it may be missing\n", words.Line(object))
	}
	for _, m := range tests.Images {
		fmt.Fprintf(a.app.Err, "not added: %s: %s (of a test hook; naupegos bundle add image adds it)\n", words.Line(m.Where()), words.Line(m.Text))
	}
	a.unlisted(look.Listed, found)
	return a.addFound(ctx, found, path)
}

// readValues reads the files of values and the values themselves.
func (a *addingChart) readValues() error {
	for _, file := range a.files {
		data, err := readFile(file, "read the values")
		if err != nil {
			return err
		}
		a.release.ValuesFiles = append(a.release.ValuesFiles, data)
	}
	a.release.Values = map[string]any{}
	for _, text := range a.values {
		if err := chart.SetValue(a.release.Values, text); err != nil {
			return err
		}
	}
	return nil
}

// read reads the chart from a directory, a file or a registry.
func (a *addingChart) read(ctx context.Context, path string) (map[string][]byte, error) {
	if !strings.Contains(path, "://") {
		return siteset.ReadChart(path)
	}
	if !strings.HasPrefix(path, "oci://") {
		return nil, fail.New(fail.Invalid, "%s is not the address of a registry", path).Do("helm pull fetches the chart; name the file that it writes, or an address oci://REGISTRY/PATH:VERSION")
	}
	ref, err := images.ParseChartReference(path)
	if err != nil {
		return nil, err
	}
	a.chart = &ref
	packed, digest, err := images.FetchChart(ctx, ref, a.options.Access)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(a.app.Err, "chart oci://%s@%s\n", ref.Name, digest)
	return siteset.UnpackChart(packed)
}

// unlisted prints the images that the chart's author lists and no object names.
func (a *addingChart) unlisted(list string, found images.Scanned) {
	var listed images.Scanned
	if err := listed.ScanMade("Chart.yaml: annotation artifacthub.io/images", []byte(list)); err != nil {
		fmt.Fprintf(a.app.Err, "not read: %s\n", words.Line(err.Error()))
	}
	for _, r := range images.Distinct(listed.Images) {
		if !found.Has(r) {
			fmt.Fprintf(a.app.Err, "not added: %s (Chart.yaml lists it, and no object names it with these values; naupegos bundle add image adds it)\n", words.Line(r.Text))
		}
	}
}
