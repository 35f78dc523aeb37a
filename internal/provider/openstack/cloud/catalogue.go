package cloud

import (
	"cmp"
	"context"
	"errors"
	"net/http"
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

// catalogue returns the catalogue that came with the token.
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

// regionOf returns the region of the services: the requested one, or the only one. It refuses to choose among several, because then each
// service would be taken from the first region that lists it.
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
	case len(have) == 0: // the lookup of the service reports the problem
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

// locator finds services in the catalogue. gophercloud's own locator first asks each service for its versions, an additional call without a
// deadline, although most addresses contain the version. This one calls ask only for a service that needs a version and whose address has
// none.
func locator(all []tokens.CatalogEntry, ask func(base, kind string, major int) (string, error)) gophercloud.EndpointLocator {
	return func(o gophercloud.EndpointOpts) (string, error) {
		for _, kind := range o.Types() { // the official name first, then the aliases
			for _, s := range all {
				if s.Type != kind || o.Name != "" && s.Name != o.Name {
					continue
				}
				if url := endpointOf(s.Endpoints, o); url != "" {
					return asClientsTakeIt(url, o, ask)
				}
			}
		}
		return "", &gophercloud.ErrEndpointNotFound{}
	}
}

// appended lists the services whose clients append the version to the address themselves.
var appended = map[string]bool{"network": true, "image": true, "load-balancer": true, "dns": true, "key-manager": true}

// asClientsTakeIt converts an address to the form that gophercloud's client of the service expects, whether or not it is registered with a
// version or trailing slashes.
func asClientsTakeIt(raw string, o gophercloud.EndpointOpts, ask func(base, kind string, major int) (string, error)) (string, error) {
	base := strings.TrimRight(raw, "/")
	at := versionInURL.FindAllStringIndex(base, -1)
	switch {
	case appended[o.Type] && at != nil: // these services' addresses contain nothing after the version, such as a project
		return base[:at[len(at)-1][0]] + "/", nil
	case appended[o.Type] || at != nil || o.Type == "identity" || o.Version == 0:
		return base + "/", nil
	}
	return ask(base, o.Type, o.Version)
}

func endpointOf(all []tokens.Endpoint, o gophercloud.EndpointOpts) string {
	i := slices.IndexFunc(all, func(e tokens.Endpoint) bool {
		m := versionInURL.FindStringSubmatch(e.URL)
		return e.Interface == string(o.Availability) && (o.Region == "" || e.Region == o.Region || e.RegionID == o.Region) &&
			(m == nil || o.Version == 0 || m[1] == strconv.Itoa(o.Version) || o.Type == "identity")
	})
	if i < 0 {
		return ""
	}
	return gophercloud.NormalizeURL(all[i].URL)
}

// versionsOf asks a service that is registered without a version for its versions, and returns the address of the wanted one on the registered
// host, because services behind proxies often report another host.
func versionsOf(ctx context.Context, pc *gophercloud.ProviderClient, base, kind string, major int, project string) (string, error) {
	u, err := url.Parse(base)
	if err != nil {
		return "", fail.Wrap(fail.Refused, err, "the catalogue contains a malformed address")
	}
	path := u.Path
	if project != "" {
		path = strings.TrimSuffix(path, "/"+project)
	}
	tail := "/" + project // older Cinders require it, and all accept it
	if kind == "compute" {
		tail = strings.TrimPrefix(u.Path, path)
	}
	u.Path = path + "/"
	var doc struct {
		Versions []struct {
			ID     string `json:"id"`
			Status string `json:"status"`
			Links  []struct {
				Rel  string `json:"rel"`
				Href string `json:"href"`
			} `json:"links"`
		} `json:"versions"`
	}
	_, err = pc.Request(ctx, http.MethodGet, u.String(), &gophercloud.RequestOpts{JSONResponse: &doc, OkCodes: []int{http.StatusOK, http.StatusMultipleChoices}}) //nolint:bodyclose // gophercloud closes it
	if err != nil {
		return "", Wrap(err, "ask the service at %s for its versions", u.Host)
	}
	best := ""
	for _, v := range doc.Versions {
		m := versionInURL.FindStringSubmatch("/" + v.ID)
		if m == nil || m[1] != strconv.Itoa(major) || v.ID < best {
			continue
		}
		at := path + "/" + v.ID
		for _, l := range v.Links {
			if p := versionAtEnd.FindString(strings.TrimRight(l.Href, "/")); l.Rel == "self" && p != "" {
				at = path + p
			}
		}
		best, u.Path = v.ID, strings.TrimRight(at+tail, "/")+"/"
	}
	if best == "" {
		return "", fail.New(fail.Refused, "the service at %s has no version %d of its API", u.Host, major)
	}
	return u.String(), nil
}

var versionAtEnd = regexp.MustCompile(`/v\d+(\.\d+)?$`)

// Place is a service's entry in the catalogue: its type, and the path of its address.
type Place struct{ Type, Path string }

// Places lists the catalogue's entries for a service with one of these types and this API version, in the cloud's region and for every
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
