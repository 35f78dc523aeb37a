//go:build openstack

package bed_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/pagination"

	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestTLSCloud checks the region behind TLS: all addresses in the catalog and in the services' answers are https, the region has no load
// balancing, and clients that do not trust the bed's authority fail.
func TestTLSCloud(t *testing.T) {
	b := up(t)
	auth, endpoint, trust, err := clouds.Parse(clouds.WithLocations(b.CloudsYAML()), clouds.WithCloudName(bed.TLSCloud))
	if err != nil {
		t.Fatal(err)
	}
	var unknown x509.UnknownAuthorityError
	if _, err := config.NewProviderClient(t.Context(), auth); !errors.As(err, &unknown) {
		t.Errorf("a client that does not know the authority gets %v", err)
	}
	p, err := config.NewProviderClient(t.Context(), auth, config.WithTLSConfig(trust))
	if err != nil {
		t.Fatal(err)
	}
	for _, make := range []func(*gophercloud.ProviderClient, gophercloud.EndpointOpts) (*gophercloud.ServiceClient, error){
		openstack.NewIdentityV3, openstack.NewComputeV2, openstack.NewNetworkV2, openstack.NewBlockStorageV3, openstack.NewImageV2, openstack.NewPlacementV1,
		openstack.NewDNSV2,
	} {
		c, err := make(p, endpoint)
		if err != nil {
			t.Error(err)
			continue
		}
		tellsOfTLS(t, b, trust, c.Endpoint)
	}
	if c, err := openstack.NewLoadBalancerV2(p, endpoint); err == nil {
		t.Errorf("the region has load balancing: %s", c.Endpoint)
	}
	network, err := openstack.NewNetworkV2(p, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	pages := 0
	err = networks.List(network, networks.ListOpts{Limit: 1}).EachPage(t.Context(), func(_ context.Context, _ pagination.Page) (bool, error) {
		pages++
		return pages < 3, nil
	})
	if err != nil || pages == 0 {
		t.Errorf("%d pages of networks: %v", pages, err)
	}
}

// tellsOfTLS queries an endpoint's versions and checks the addresses in the answer.
func tellsOfTLS(t *testing.T, b *bed.Bed, trust *tls.Config, endpoint string) {
	t.Helper()
	own := "https://" + b.Address() + ":"
	port, _, _ := strings.Cut(strings.TrimPrefix(endpoint, own), "/")
	if !strings.HasPrefix(endpoint, own) {
		t.Errorf("the endpoint %s is not behind TLS", endpoint)
		return
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
	resp, err := client.Get(own + port + "/")
	if err != nil {
		t.Error(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= http.StatusBadRequest || bytes.Contains(body, []byte("http://"+b.Address())) {
		t.Errorf("%s: %s %v: %s", endpoint, resp.Status, err, body)
	}
}
