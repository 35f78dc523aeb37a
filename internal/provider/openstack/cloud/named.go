package cloud

import (
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// entries reads the clouds of a clouds.yaml, with what ReadNamed needs of each.
func entries(n provider.NamedCloud) (map[string]struct {
	CACert string `yaml:"cacert"`
}, error) {
	var all struct {
		Clouds map[string]struct {
			CACert string `yaml:"cacert"`
		} `yaml:"clouds"`
	}
	if yaml.Unmarshal(n.YAML, &all) != nil || len(all.Clouds) == 0 { // what it says could repeat a password
		return nil, fail.New(fail.Invalid, "credential %s holds no clouds.yaml", n.Name).Do("its value needs clouds: with one entry for each cloud")
	}
	return all.Clouds, nil
}

// pick returns the name of the cloud that is meant: the only one if the document names none.
func pick(n provider.NamedCloud, cloud string) (string, error) {
	all, err := entries(n)
	if err != nil || cloud != "" {
		return cloud, err
	}
	if names := slices.Sorted(maps.Keys(all)); len(names) == 1 {
		return names[0], nil
	}
	return "", fail.New(fail.Invalid, "credential %s holds %d clouds", n.Name, len(all)).Do("name one in spec.provider.openstack.cloud")
}

// ReadNamed is ReadLogin of a clouds.yaml that came by the name of a credential. It looks at no variable and at no other clouds.yaml.
func ReadNamed(n provider.NamedCloud, cloud, region string) (Login, error) {
	cloud, err := pick(n, cloud)
	if err != nil {
		return Login{}, err
	}
	l := Login{Source: `cloud "` + cloud + `" of credential ` + n.Name}
	none := strings.NewReader
	l.Options, l.Where, l.TLS, err = clouds.Parse(clouds.WithCloudName(cloud), clouds.WithCloudsYAML(strings.NewReader(string(n.YAML))),
		clouds.WithSecureYAML(none("{}")), clouds.WithCloudsPublicYAML(none("{}")), clouds.WithRegion(""), clouds.WithEndpointType(""))
	if err != nil { // its text could repeat a part of the value
		return l, fail.New(fail.Invalid, "%s can't be read", l.Source).Do("name a cloud of the credential in spec.provider.openstack.cloud; openstack --os-cloud NAME token issue tries the file")
	}
	if l.Options.IdentityEndpoint == "" {
		return l, fail.New(fail.Invalid, "%s has no auth.auth_url", l.Source)
	}
	if err := n.Allowed(l.Options.IdentityEndpoint); err != nil {
		return l, err
	}
	if region != "" {
		l.Where.Region = region
	}
	l.Options.AllowReauth = l.Options.TokenID == ""
	return l, nil
}

// CACertNamed is CACert of a clouds.yaml that came by the name of a credential.
func CACertNamed(n provider.NamedCloud, cloud string) (string, error) {
	cloud, err := pick(n, cloud)
	if err != nil {
		return "", err
	}
	all, err := entries(n)
	if err != nil {
		return "", err
	}
	return readCACert(all[cloud].CACert)
}
