package bundling

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/images"
	"github.com/naupegos/naupegos/internal/cli/bundles"
	"github.com/naupegos/naupegos/internal/cli/output"
	"github.com/naupegos/naupegos/internal/cli/progress"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/plan/words"
)

// adding is one call of naupegos bundle add.
type adding struct {
	*bundleCmd
	options      images.Options
	passwordFile string
	ca           string
	pin          bool
	chart        *images.Reference // that was fetched with the same credentials
	out          output.Format
}

func (b *bundleCmd) addCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "add",
		Short: "Add a site's own images to the library",
		Long: `Fetch images, and keep them in a set of the library. A cluster with spec.registry serves the set to its machines, so that
pods run without another registry. Every image is kept with its digest: what a tag means is decided once, here.

Credentials are those of docker login and podman login, unless --username is given. Plain http is used for registries on
this host alone.`,
		Example: "  naupegos bundle add image docker.io/library/nginx:1.29\n  naupegos bundle add manifest shop/ --pin\n  naupegos bundle add chart charts/shop --pin",
	}
	c.AddCommand(b.addImageCmd(), b.addManifestCmd(), b.addChartCmd())
	return c
}

// bind adds the flags that all kinds of additions have.
func (a *adding) bind(c *cobra.Command) *cobra.Command {
	f := c.Flags()
	f.StringVar(&a.options.Set, "set", bundle.DefaultSet, "set that the images are added to")
	f.StringSliceVar(&a.options.Platforms, "platform", nil, "platform of the machines, as linux/arm64 (repeatable; default: this host's)")
	f.StringVar(&a.options.Access.User, "username", "", "user for the registry; all images must come from one registry then")
	f.StringVar(&a.passwordFile, "password-file", "", "file whose first line is the user's password or token")
	f.StringVar(&a.ca, "ca", "", "file with the certificate (PEM) of an authority to trust besides the system's")
	a.out.Bind(c)
	return c
}

func (b *bundleCmd) addImageCmd() *cobra.Command {
	a := &adding{bundleCmd: b}
	c := &cobra.Command{
		Use:   "image REF... | --from FILE [REF...]",
		Short: "Add images",
		Long: `Add images by name. A name without digest is resolved now: the digest that its tag means is printed and kept.

--from reads the images from an OCI layout (a directory), from an archive of one, or from an archive that docker save or
podman save wrote. Without names, it adds all images that the file names.`,
		Example: `  naupegos bundle add image docker.io/library/nginx:1.29 registry.example.org/team/app:v1
  naupegos bundle add image registry.example.org/team/app:v1 --username robot --password-file token --ca ca.crt
  naupegos bundle add image --from app.tar`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && a.options.From == "" {
				return fail.New(fail.Invalid, "no image is named").Do("name images, or a file: --from FILE")
			}
			var refs []images.Reference
			for _, text := range args {
				r, err := images.ParseReference(text)
				if err != nil {
					return err
				}
				refs = append(refs, r)
			}
			return a.add(cmd.Context(), refs)
		},
	}
	c.Flags().StringVar(&a.options.From, "from", "", "OCI layout or archive to read the images from")
	return a.bind(c)
}

func (b *bundleCmd) addManifestCmd() *cobra.Command {
	a := &adding{bundleCmd: b}
	c := &cobra.Command{
		Use:   "manifest FILE|DIR...",
		Short: "Add the images that manifests name",
		Long: `Find the images in Kubernetes objects of all kinds, in YAML or JSON, and add them. Directories are read with those below
them; - is standard input. Fields image, imageName and …Image count, with a text or with repository and tag, as do
variables RELATED_IMAGE_… of operators. Texts elsewhere that look like images are printed, and not added.

An image that is named by its tag alone is refused, with file, line and field: the tag can come to mean another image.
--pin records what tags mean now.`,
		Example: "  naupegos bundle add manifest deployment.yaml\n  naupegos bundle add manifest shop/ --pin\n  kubectl kustomize overlay | naupegos bundle add manifest -",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var found images.Scanned
			for _, path := range args {
				if path == "-" {
					if err := found.Scan("standard input", b.app.In); err != nil {
						return err
					}
					continue
				}
				s, err := images.ScanPath(path)
				if err != nil {
					return err
				}
				found.Images, found.Unclear = append(found.Images, s.Images...), append(found.Unclear, s.Unclear...)
			}
			return a.addFound(cmd.Context(), found, strings.Join(args, ", "))
		},
	}
	return a.bindPin(c)
}

// bindPin adds the flags of additions that find images themselves.
func (a *adding) bindPin(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&a.pin, "pin", false, "record the digests that tags mean now")
	return a.bind(c)
}

// addFound adds the images of a scan.
func (a *adding) addFound(ctx context.Context, found images.Scanned, where string) error {
	for _, m := range found.Unclear {
		fmt.Fprintf(a.app.Err, "not recognised: %s: %s (add it yourself if it is an image: naupegos bundle add image)\n", words.Line(m.Where()), words.Line(m.Text))
	}
	if !a.pin {
		if err := images.CheckPinned(found.Images); err != nil {
			return err
		}
	}
	refs := images.Distinct(found.Images)
	if len(refs) == 0 {
		return fail.New(fail.NotFound, "no image found").At(where).Do("name files with Kubernetes objects")
	}
	if a.chart != nil {
		if err := a.options.Access.Check(append(refs, *a.chart)); err != nil {
			return err
		}
	}
	return a.add(ctx, refs)
}

// add adds images, and prints their digests.
func (a *adding) add(ctx context.Context, refs []images.Reference) error {
	if err := a.access(); err != nil {
		return err
	}
	lib, err := bundles.Library(a.root)
	if err != nil {
		return err
	}
	a.options.Progress = progress.Bundle(a.app.Err)
	added, err := images.Add(ctx, lib, refs, a.options)
	if err != nil {
		return err
	}
	return a.out.Print(a.app.Out, added, func(w io.Writer) error {
		for _, i := range added.Images {
			if _, err := fmt.Fprintf(w, "%s (%s)\n", i.Ref(), strings.Join(i.Platforms, ", ")); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintf(w, "set %s: %s (%d images, %d MiB)\n", added.Set.Name, added.Set.ID[:12], len(added.Set.Images), added.Set.Size>>20)
		return err
	})
}

// access reads password and authority.
func (a *adding) access() error {
	if (a.options.Access.User == "") != (a.passwordFile == "") {
		return fail.New(fail.Invalid, "--username and --password-file belong together").Do("give both, or neither")
	}
	if a.passwordFile != "" {
		text, err := readFile(a.passwordFile, "read the password")
		if err != nil {
			return err
		}
		a.options.Access.Password, _, _ = strings.Cut(string(text), "\n")
		a.options.Access.Password = strings.TrimRight(a.options.Access.Password, "\r")
	}
	if a.ca != "" {
		text, err := readFile(a.ca, "read the authority")
		if err != nil {
			return err
		}
		a.options.Access.CA = text
	}
	return nil
}

func readFile(path, what string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "%s", what).At(path)
	}
	return text, nil
}
