package addons

import (
	"context"

	"github.com/naupegos/naupegos/internal/addon"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/access"
)

// makeNamespaces creates the missing namespaces of the document's bindings. It does not label them as part of the bindings, because they and
// their content outlive the bindings.
func (c *Addons) makeNamespaces(ctx context.Context, client *kube.Client) error {
	missing, err := access.MissingNamespaces(ctx, client, addon.BindingNamespaces(c.Doc))
	if err != nil || len(missing) == 0 {
		return err
	}
	_, err = client.Apply(ctx, addon.NamespaceManifests(missing), kube.ApplyOptions{})
	return err
}
