package openstack

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// CloudCredential is a restricted application credential of one cluster: what its cloud controller manager and its volume driver
// sign in with. The caller keeps it encrypted. It prints without its secret; only CloudsYAML writes that out.
type CloudCredential struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Secret    string   `json:"secret"`
	AuthURL   string   `json:"authURL"`
	Region    string   `json:"region,omitempty"`    // empty: the cloud has one
	Interface string   `json:"interface,omitempty"` // of the services' addresses: "internal", "admin"; empty: public
	ProjectID string   `json:"projectID"`
	UserID    string   `json:"userID"`             // whose it is: it ends when that user does
	Roles     []string `json:"roles,omitempty"`    // that it carries, of those the user has
	Insecure  bool     `json:"insecure,omitempty"` // the cloud's certificate is not checked, as the user's clouds.yaml says
	CACert    string   `json:"caCert,omitempty"`   // PEM of the authorities that sign the cloud's certificate; empty: the system's
}

// String names the credential and hides its secret.
func (c CloudCredential) String() string {
	return fmt.Sprintf("application credential %s (%s)", c.Name, c.ID)
}

// GoString hides the secret from %#v too.
func (c CloudCredential) GoString() string { return c.String() }

// CloudsYAML renders a clouds.yaml with the credential as the cloud of the given name, for handing over. It holds the secret. caFile
// is where CACert will lie beside it; empty: nowhere.
func (c CloudCredential) CloudsYAML(cloud, caFile string) ([]byte, error) {
	type auth struct {
		AuthURL string `yaml:"auth_url"`
		ID      string `yaml:"application_credential_id"`
		Secret  string `yaml:"application_credential_secret"`
	}
	type entry struct {
		AuthType           string `yaml:"auth_type"`
		Auth               auth   `yaml:"auth"`
		Region             string `yaml:"region_name,omitempty"`
		Interface          string `yaml:"interface,omitempty"`
		IdentityAPIVersion int    `yaml:"identity_api_version"`
		Verify             *bool  `yaml:"verify,omitempty"`
		CACert             string `yaml:"cacert,omitempty"`
	}
	e := entry{
		AuthType: "v3applicationcredential", Auth: auth{AuthURL: c.AuthURL, ID: c.ID, Secret: c.Secret},
		Region: c.Region, Interface: c.Interface, IdentityAPIVersion: 3,
	}
	if c.Insecure {
		no := false
		e.Verify = &no
	}
	if c.CACert != "" {
		e.CACert = caFile
	}
	return yaml.Marshal(map[string]map[string]entry{"clouds": {cloud: e}})
}
