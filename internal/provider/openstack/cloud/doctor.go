package cloud

import (
	"context"
	"fmt"
	"os"

	"github.com/naupegos/naupegos/internal/provider"
)

// CheckLogin checks the login to the cloud that the environment selects. Selecting none is no fault: only provider openstack needs one, and a
// document may name it.
func CheckLogin(ctx context.Context) provider.Check {
	c := provider.Check{Name: "cloud credentials", Result: provider.Fine}
	if os.Getenv("OS_CLOUD") == "" && os.Getenv("OS_AUTH_URL") == "" {
		c.Detail = "neither $OS_CLOUD nor $OS_AUTH_URL is set; only provider openstack needs them"
		return c
	}
	where, who, err := tryLogin(ctx)
	if err != nil {
		c.Result, c.Detail = provider.Failing, err.Error()
		return c
	}
	c.Detail = fmt.Sprintf("user %s can log in to project %s, by %s", who.User.Name, who.Project.Name, where)
	return c
}

func tryLogin(ctx context.Context) (string, User, error) {
	l, err := ReadLogin("", "")
	if err != nil {
		return "", User{}, err
	}
	c, err := Connect(ctx, l, Calls{})
	if err != nil {
		return "", User{}, err
	}
	me, err := c.WhoAmI()
	return l.Source, me, err
}
