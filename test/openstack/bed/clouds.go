package bed

import (
	"fmt"
	"strings"
)

// cloudsEntry is a cloud of clouds.yaml.
type cloudsEntry struct{ name, authURL, user, password, project, region, cacert string }

// writeClouds writes clouds.yaml.
func writeClouds(b *Bed) error {
	all := append(clouds(b, b.keystone()), cloudsEntry{
		TLSCloud, "https://" + b.api(15000) + "/v3", Cloud, b.secrets.User, Cloud, tlsRegion, b.CACertFile(),
	})
	return write(b.CloudsYAML(), cloudsYAML(all), 0o600)
}

// CloudsYAMLAt renders clouds.yaml with Keystone at another address, such as that of a proxy in front of it. The result contains passwords. It
// leaves TLSCloud out.
func (b *Bed) CloudsYAMLAt(authURL string) []byte { return cloudsYAML(clouds(b, authURL)) }

func clouds(b *Bed, authURL string) []cloudsEntry {
	return []cloudsEntry{
		{Cloud, authURL, Cloud, b.secrets.User, Cloud, region, ""}, {AdminCloud, authURL, "admin", b.secrets.Admin, "admin", region, ""},
	}
}

func cloudsYAML(all []cloudsEntry) []byte {
	var s strings.Builder
	s.WriteString("clouds:\n")
	for _, c := range all {
		fmt.Fprintf(&s, `  %s:
    auth:
      auth_url: %s
      username: %s
      password: %s
      project_name: %s
      user_domain_name: Default
      project_domain_name: Default
    region_name: %s
    identity_api_version: 3
`, c.name, c.authURL, c.user, c.password, c.project, c.region)
		if c.cacert != "" {
			fmt.Fprintf(&s, "    cacert: %s\n", c.cacert)
		}
	}
	return []byte(s.String())
}
