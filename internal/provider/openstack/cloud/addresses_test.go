package cloud

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// TestCatalogueAddresses: services are found at the same place in whatever form their addresses are registered.
func TestCatalogueAddresses(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { // versions, as Nova and Cinder list them
		switch strings.TrimSuffix(r.URL.Path, "/") {
		case "", "/compute":
			_, _ = w.Write([]byte(`{"versions":[{"id":"v2.0","links":[{"rel":"self","href":"http://other/compute/v2/"}]},{"id":"v2.1","links":[{"rel":"self","href":"http://other/compute/v2.1/"}]}]}`))
		case "/volume":
			w.WriteHeader(http.StatusMultipleChoices)
			_, _ = w.Write([]byte(`{"versions":[{"id":"v2.0"},{"id":"v3.0","links":[{"rel":"self","href":"http://other/volume/v3/"}]}]}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer srv.Close()
	type maker = func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
	for kind, c := range map[string]struct {
		make  maker
		path  string // of a resource
		forms string // addresses without host
		want  string
	}{
		"network":       {openstack.NewNetworkV2, "networks", "|/|/v2.0|/v2.0/|//", "/v2.0/networks"},
		"network 2":     {openstack.NewNetworkV2, "networks", "/networking|/networking/|/networking/v2.0|/networking/v2|/networking/v2.0//", "/networking/v2.0/networks"},
		"image":         {openstack.NewImageV2, "images", "/image|/image/|/image/v2|/image/v2/|/image/v2.9", "/image/v2/images"},
		"load-balancer": {openstack.NewLoadBalancerV2, "lbaas", "/load-balancer|/load-balancer/|/load-balancer/v2|/load-balancer/v2.0|/load-balancer/v2.0/", "/load-balancer/v2.0/lbaas"},
		"identity":      {openstack.NewIdentityV3, "users", "/identity|/identity/|/identity/v3|/identity/v3/|/identity/v2.0", "/identity/v3/users"},
		"compute":       {openstack.NewComputeV2, "servers", "/compute|/compute/|/compute/v2.1|/compute/v2.1/", "/compute/v2.1/servers"},
		"compute 2":     {openstack.NewComputeV2, "servers", "/compute/v2.1/p1|/compute/v2.1/p1/|/compute/p1", "/compute/v2.1/p1/servers"},
		"compute 3":     {openstack.NewComputeV2, "servers", "|/", "/v2.1/servers"},
		"volumev3":      {openstack.NewBlockStorageV3, "volumes", "/volume|/volume/|/volume/p1|/volume/v3/p1|/volume/v3/p1/", "/volume/v3/p1/volumes"},
		"block-storage": {openstack.NewBlockStorageV3, "volumes", "/volume/v3|/volume/v3/", "/volume/v3/volumes"},
	} {
		for _, form := range strings.Split(c.forms, "|") {
			pc := &gophercloud.ProviderClient{HTTPClient: *srv.Client()}
			all := []tokens.CatalogEntry{{Type: strings.Fields(kind)[0], Endpoints: []tokens.Endpoint{{Interface: "public", Region: "r", URL: srv.URL + form}}}}
			pc.EndpointLocator = locator(all, func(base, kind string, major int) (string, error) {
				return versionsOf(t.Context(), pc, base, kind, major, "p1")
			})
			sc, err := c.make(pc, gophercloud.EndpointOpts{Region: "r", Availability: gophercloud.AvailabilityPublic})
			if err != nil {
				t.Errorf("%s %s: %v", kind, form, err)
				continue
			}
			if got := sc.ServiceURL(c.path); got != srv.URL+c.want {
				t.Errorf("%s registered as %q is asked at %s, want %s", kind, form, strings.TrimPrefix(got, srv.URL), c.want)
			}
		}
	}
}

// TestCatalogueVersions: of several addresses the one of the wanted version is taken, and none of another one.
func TestCatalogueVersions(t *testing.T) {
	at := func(url string) tokens.CatalogEntry {
		return tokens.CatalogEntry{Type: "volumev3", Endpoints: []tokens.Endpoint{{Interface: "public", URL: url}}}
	}
	find := locator([]tokens.CatalogEntry{at("https://c/v2/p"), at("https://c/v3/p")}, nil)
	o := gophercloud.EndpointOpts{Type: "block-storage", Aliases: []string{"volumev3"}, Version: 3, Availability: gophercloud.AvailabilityPublic}
	if got, err := find(o); err != nil || got != "https://c/v3/p/" {
		t.Errorf("%s %v", got, err)
	}
	var absent *gophercloud.ErrEndpointNotFound
	if _, err := locator([]tokens.CatalogEntry{at("https://c/v2/p")}, nil)(o); !errors.As(err, &absent) {
		t.Error(err)
	}
}
