package cloud

import (
	"slices"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
)

// TestPlaces finds a service under all its names and at all its interfaces, each place once, and neither elsewhere nor with another API.
func TestPlaces(t *testing.T) {
	at := func(iface, region, url string) tokens.Endpoint {
		return tokens.Endpoint{Interface: iface, Region: region, URL: url}
	}
	all := []tokens.CatalogEntry{
		{Type: "volumev2", Endpoints: []tokens.Endpoint{at("public", "north", "https://c/volume/v2/p")}},
		{Type: "volume", Endpoints: []tokens.Endpoint{at("public", "north", "https://c/volume/v1/p"), at("public", "north", "https://c/volume/v3/p")}},
		{Type: "volumev3", Endpoints: []tokens.Endpoint{
			at("public", "north", "https://c/volume/v3/p/"), at("admin", "north", "http://10.0.0.1/volume/v3/p"), at("internal", "north", "http://10.0.0.1:8776/v3/p"),
			at("public", "south", "https://s/block/v3/p"),
		}},
		{Type: "network", Endpoints: []tokens.Endpoint{at("public", "north", "https://c:9696")}},
	}
	want := []Place{{"volume", "/volume/v3/p"}, {"volumev3", "/volume/v3/p"}, {"volumev3", "/v3/p"}}
	if got := placesIn(all, "north", 3, []string{"block-storage", "volumev3", "volume"}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := placesIn(all, "north", 2, []string{"network"}); !slices.Equal(got, []Place{{"network", ""}}) {
		t.Errorf("%v", got)
	}
	if got := placesIn(all, "", 3, []string{"volumev3"}); len(got) != 3 {
		t.Errorf("where no region is known: %v", got)
	}
}
