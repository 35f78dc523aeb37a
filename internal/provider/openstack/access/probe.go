package access

import (
	"context"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Callee is a service of a cloud that components of a cluster call.
type Callee struct {
	Service
	Client *gophercloud.ServiceClient // authenticated as the user
	Places []cloud.Place
}

// Refusers returns which services reject the login with access rules, and the remedy for their operator; empty if all accept it. Each service checks
// the rules itself, and rejects every call if it is not configured with its own type in the catalogue.
func Refusers(ctx context.Context, login *gophercloud.ProviderClient, all []Callee) (string, error) {
	var out []string
	for _, s := range all {
		bounded := *s.Client
		bounded.ProviderClient = login
		refused, err := s.refuses(ctx, &bounded)
		if err != nil {
			return "", err
		}
		if refused {
			out = append(out, s.Name+" (service_type = "+s.Places[0].Type+")")
		}
	}
	if len(out) == 0 {
		return "", nil
	}
	return "not all of the cloud's services take a credential with access rules: " + strings.Join(out, ", ") +
		"; their operator has to set that in [keystone_authtoken], and what stands before them to leave paths as they are", nil
}

// refuses reports whether the service refuses a client with access rules although it answers the user's own client.
func (s Callee) refuses(ctx context.Context, bounded *gophercloud.ServiceClient) (bool, error) {
	var answer any
	url := s.ProbeURL(s.Client.Endpoint)
	err := cloud.GetURL(ctx, bounded, &answer, url)
	if err == nil {
		return false, nil
	}
	err = cloud.GetURL(ctx, s.Client, &answer, url)
	if status := cloud.Status(err); err != nil && (status < http.StatusBadRequest || status >= http.StatusInternalServerError) {
		return false, cloud.Wrap(err, "ask the %s service", s.Name)
	}
	return err == nil, nil // a call that the user may not make either proves nothing about access rules
}
