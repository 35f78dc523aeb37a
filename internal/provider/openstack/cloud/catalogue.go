package cloud

import (
	"cmp"
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/naupegos/naupegos/internal/fail"
)

var versionInURL = regexp.MustCompile(`/v(\d+)(\.\d+)?(/|$)`)

// catalogue returns the services that came with the token.
func catalogue(pc *gophercloud.ProviderClient) ([]tokens.CatalogEntry, error) {
	result, ok := pc.GetAuthResult().(interface {
		ExtractServiceCatalog() (*tokens.ServiceCatalog, error)
	})
	if !ok {
		return nil, errors.New("the identity service does not speak version 3")
	}
	all, err := result.ExtractServiceCatalog()
	if err != nil {
		return nil, err
	}
	return all.Entries, nil
}

// regionOf returns the region that the services are in: the one that is asked for, or the only one. Where there are several and none is
// asked for, each service would be taken from whichever comes first.
func regionOf(all []tokens.CatalogEntry, l Login) (string, error) {
	var have []string
	for _, s := range all {
		for _, e := range s.Endpoints {
			if r := cmp.Or(e.Region, e.RegionID); s.Type == "compute" && e.Interface == string(l.Where.Availability) && r != "" {
				have = append(have, r)
			}
		}
	}
	slices.Sort(have)
	have = slices.Compact(have)
	const field = "spec.provider.openstack.region"
	switch want := l.Where.Region; {
	case len(have) == 0: // the search for the service says what is wrong
		return want, nil
	case want != "" && !slices.Contains(have, want):
		return "", fail.New(fail.Refused, "%s has no region %s", l.Source, want).At(field).Do("it has %s", strings.Join(have, ", "))
	case want != "":
		return want, nil
	case len(have) > 1:
		return "", fail.New(fail.Invalid, "%s has %d regions, and none is named", l.Source, len(have)).At(field).
			Do("give one of %s there, as region_name in clouds.yaml or as $OS_REGION_NAME", strings.Join(have, ", "))
	}
	return have[0], nil
}

// locator finds services in the catalogue. gophercloud's own asks each service for its versions first, which is a call more each,
// without a deadline; where the address tells the version, there is nothing to ask.
func locator(all []tokens.CatalogEntry) gophercloud.EndpointLocator {
	return func(o gophercloud.EndpointOpts) (string, error) {
		for _, kind := range o.Types() { // the official name first, then the aliases
			for _, s := range all {
				if s.Type != kind || o.Name != "" && s.Name != o.Name {
					continue
				}
				if url := endpointOf(s.Endpoints, o); url != "" {
					return url, nil
				}
			}
		}
		return "", &gophercloud.ErrEndpointNotFound{}
	}
}

func endpointOf(all []tokens.Endpoint, o gophercloud.EndpointOpts) string {
	i := slices.IndexFunc(all, func(e tokens.Endpoint) bool {
		m := versionInURL.FindStringSubmatch(e.URL)
		return e.Interface == string(o.Availability) && (o.Region == "" || e.Region == o.Region || e.RegionID == o.Region) &&
			(m == nil || o.Version == 0 || m[1] == string(rune('0'+o.Version)))
	})
	if i < 0 {
		return ""
	}
	return gophercloud.NormalizeURL(all[i].URL)
}

// Place is where the catalogue says that a service is: the type that it knows it by, and the path of the address.
type Place struct{ Type, Path string }

// Places lists where the catalogue has a service of one of these types and this version of its API, in the region of the others, at any
// interface: services call each other at other addresses than users do.
func (c *Cloud) Places(major int, types ...string) ([]Place, error) {
	all, err := catalogue(c.Client)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the service catalogue of %s", c.Login.Source)
	}
	return placesIn(all, c.Region, major, types), nil
}

func placesIn(all []tokens.CatalogEntry, region string, major int, types []string) (out []Place) {
	for _, s := range all {
		for _, e := range s.Endpoints {
			at, err := url.Parse(e.URL)
			m := versionInURL.FindStringSubmatch(e.URL)
			if err != nil || !slices.Contains(types, s.Type) || region != "" && e.Region != region && e.RegionID != region ||
				m != nil && m[1] != strconv.Itoa(major) {
				continue
			}
			if p := (Place{Type: s.Type, Path: strings.TrimRight(at.Path, "/")}); !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}
