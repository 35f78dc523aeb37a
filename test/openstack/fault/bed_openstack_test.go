//go:build openstack

package fault_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/naupegos/naupegos/test/openstack/bed"
	"github.com/naupegos/naupegos/test/openstack/fault"
)

func up(t *testing.T) *fault.Proxy {
	t.Helper()
	b, giveBack, err := bed.Borrow(t.Context(), bed.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := giveBack(); err != nil {
			t.Error(err)
		}
	})
	p, err := fault.New(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func login(t *testing.T, p *fault.Proxy) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	t.Helper()
	file, err := p.CloudsYAML(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	auth, endpoint, tls, err := clouds.Parse(clouds.WithLocations(file), clouds.WithCloudName(bed.Cloud))
	if err != nil {
		t.Fatal(err)
	}
	client, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(tls))
	if err == nil {
		client.HTTPClient.Transport = &http.Transport{DisableKeepAlives: true} // the transport does not retry on its own
	}
	return client, endpoint, err
}

// TestRealCloud checks that calls to every service pass through the proxy, including further pages of lists, and applies faults to a real
// Keystone and Neutron.
func TestRealCloud(t *testing.T) {
	p := up(t)
	client, endpoint, err := login(t, p)
	if err != nil {
		t.Fatal(err)
	}
	lists(t, p, client, endpoint)
	network, err := openstack.NewNetworkV2(client, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pages(t, p, network)
	cuts(t, p, network)
	refusedLogin(t, p)
}

// lists calls each service once and checks that the proxy has seen the call.
func lists(t *testing.T, p *fault.Proxy, client *gophercloud.ProviderClient, endpoint gophercloud.EndpointOpts) {
	p.Reset()
	for _, s := range []struct {
		name string
		make func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error)
		list func(*gophercloud.ServiceClient) pagination.Pager
	}{
		{"network", openstack.NewNetworkV2, func(c *gophercloud.ServiceClient) pagination.Pager { return networks.List(c, nil) }},
		{"compute", openstack.NewComputeV2, func(c *gophercloud.ServiceClient) pagination.Pager { return servers.List(c, nil) }},
		{"volumev3", openstack.NewBlockStorageV3, func(c *gophercloud.ServiceClient) pagination.Pager { return volumes.List(c, nil) }},
		{"image", openstack.NewImageV2, func(c *gophercloud.ServiceClient) pagination.Pager { return images.List(c, nil) }},
		{"load-balancer", openstack.NewLoadBalancerV2, func(c *gophercloud.ServiceClient) pagination.Pager { return loadbalancers.List(c, nil) }},
	} {
		c, err := s.make(client, endpoint)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.list(c).AllPages(t.Context()); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		calls := p.Calls()
		if last := calls[len(calls)-1]; last.Service != s.name || last.Method != http.MethodGet || last.Status != http.StatusOK {
			t.Errorf("the last call is %+v; want one of %s", last, s.name)
		}
	}
}

// pages reads a list page by page: the links to further pages also lead through the proxy.
func pages(t *testing.T, p *fault.Proxy, network *gophercloud.ServiceClient) {
	var made []string
	for range 3 {
		n, err := networks.Create(t.Context(), network, networks.CreateOpts{Name: "fault-test"}).Extract()
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, n.ID)
	}
	p.Reset()
	page, err := networks.List(network, networks.ListOpts{Name: "fault-test", Limit: 1}).AllPages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if all, err := networks.ExtractNetworks(page); err != nil || len(all) != 3 {
		t.Errorf("%d networks, want 3; %v", len(all), err)
	}
	if n := len(p.Calls()); n < 3 {
		t.Errorf("%d calls for three pages: %v", n, p.Calls())
	}
	for _, id := range made {
		if err := networks.Delete(t.Context(), network, id).ExtractErr(); err != nil {
			t.Error(err)
		}
	}
}

// cuts creates networks over connections that the proxy cuts before or after the service has done its work.
func cuts(t *testing.T, p *fault.Proxy, network *gophercloud.ServiceClient) {
	for _, tc := range []struct {
		name string
		cut  fault.Cut
		left int
	}{{"fault-test-before", fault.Before, 0}, {"fault-test-after", fault.After, 1}} {
		p.Reset()
		p.FailAt(1, fault.Fault{Cut: tc.cut})
		if n, err := networks.Create(t.Context(), network, networks.CreateOpts{Name: tc.name}).Extract(); err == nil {
			t.Errorf("%s was answered: %v", tc.name, n)
		}
		page, err := networks.List(network, networks.ListOpts{Name: tc.name}).AllPages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all, err := networks.ExtractNetworks(page)
		if err != nil || len(all) != tc.left {
			t.Errorf("%s: %d networks, want %d; %v", tc.name, len(all), tc.left, err)
		}
		for _, n := range all {
			if err := networks.Delete(t.Context(), network, n.ID).ExtractErr(); err != nil {
				t.Error(err)
			}
		}
	}
}

// refusedLogin makes the proxy answer instead of Keystone.
func refusedLogin(t *testing.T, p *fault.Proxy) {
	p.Reset()
	p.FailWhen(func(c fault.Call) bool { return c.Service == "identity" && c.Method == http.MethodPost }, 1, fault.Fault{Status: 503, RetryAfter: time.Second})
	if _, _, err := login(t, p); !gophercloud.ResponseCodeIs(err, http.StatusServiceUnavailable) {
		t.Errorf("login: %v", err)
	}
	if _, _, err := login(t, p); err != nil {
		t.Errorf("the next login: %v", err)
	}
}
