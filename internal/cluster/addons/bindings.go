package addons

import (
	"context"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/access"
)

// makeNamespaces creates the namespaces of the document's bindings that do not exist. They carry no label of the bindings: they outlive them, with all that
// lies in them.
func (c *Addons) makeNamespaces(ctx context.Context, client *kube.Client) error {
	missing, err := access.MissingNamespaces(ctx, client, addon.BindingNamespaces(c.Doc))
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = client.Apply(ctx, addon.NamespaceManifests(missing), kube.ApplyOptions{})
	return err
}
