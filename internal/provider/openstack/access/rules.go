package access

import (
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Rules returns the access rules for a service's calls at the given places of the catalogue. Each service compares a rule with the type in its
// own configuration, which must be one of its types in the catalogue, and with the whole path of a request as it arrives there.
func (s Service) Rules(at []cloud.Place) []applicationcredentials.AccessRule {
	var out []applicationcredentials.AccessRule
	for _, p := range at {
		for _, c := range s.calls {
			r := applicationcredentials.AccessRule{Service: p.Type, Method: c.method, Path: below(p.Path, c.path)}
			if !slices.Contains(out, r) {
				out = append(out, r)
			}
		}
	}
	return out
}

// ProbeURL returns the address of the service's probe, given its endpoint in the catalogue.
func (s Service) ProbeURL(endpoint string) string {
	return below(strings.TrimSuffix(endpoint, "/"), s.Probe)
}

// below joins the path of a service and that of a call. Some catalogues include the version in the address of the load-balancer service; below
// does not repeat it.
func below(service, path string) string {
	if strings.HasPrefix(path, "/v2.0/") || path == "/" {
		service = strings.TrimSuffix(service, "/v2.0")
	}
	if strings.HasPrefix(path, "/v2/") {
		service = strings.TrimSuffix(service, "/v2")
	}
	return service + path
}
