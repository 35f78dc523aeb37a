package bed

import (
	"fmt"
	"strings"
)

// writeClouds writes clouds.yaml.
func (b *Bed) writeClouds() error {
	return write(b.CloudsYAML(), b.CloudsYAMLAt(b.keystone()), 0o600)
}

// CloudsYAMLAt renders clouds.yaml with Keystone at another address, such as that of a proxy before it. It holds passwords.
func (b *Bed) CloudsYAMLAt(authURL string) []byte {
	var s strings.Builder
	s.WriteString("clouds:\n")
	for _, c := range []struct{ name, user, password, project string }{
		{Cloud, Cloud, b.secrets.User, Cloud}, {AdminCloud, "admin", b.secrets.Admin, "admin"},
	} {
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
`, c.name, authURL, c.user, c.password, c.project, region)
	}
	return []byte(s.String())
}
