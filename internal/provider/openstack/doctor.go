package openstack

import (
	"context"
	"fmt"
	"os"

	"github.com/naupegos/naupegos/internal/provider"
)

// CheckLogin reports whether the cloud that the environment chooses lets one log in. Choosing none is not a fault: only provider openstack
// needs one, and a document may name it.
func CheckLogin(ctx context.Context) provider.Check {
	c := provider.Check{Name: "cloud credentials", Result: provider.Fine}
	if os.Getenv("OS_CLOUD") == "" && os.Getenv("OS_AUTH_URL") == "" {
		c.Detail = "no cloud is chosen by $OS_CLOUD or $OS_AUTH_URL; only provider openstack needs one"
		return c
	}
	s, err := OpenImages(ctx, ImageOptions{})
	if err != nil {
		c.Result, c.Detail = provider.Failing, err.Error()
		return c
	}
	c.Detail = fmt.Sprintf("%s lets user %s into project %s", s.c.login.source, s.me.User.Name, s.me.Project.Name)
	return c
}
