package cloud

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"

	"github.com/naupegos/naupegos/internal/fail"
)

// Login is how one logs in to a cloud, as the user has set it up for every OpenStack tool.
type Login struct {
	Options gophercloud.AuthOptions
	Where   gophercloud.EndpointOpts
	TLS     *tls.Config
	Source  string // where the credentials came from, for people; never the secret
}

// ReadLogin reads clouds.yaml (and secure.yaml) where the document or $OS_CLOUD names a cloud, else the OS_* variables.
func ReadLogin(cloud, region string) (Login, error) {
	if cloud == "" {
		cloud = os.Getenv("OS_CLOUD")
	}
	l, err := Login{}, error(nil)
	if cloud != "" {
		l, err = loginFromFile(cloud)
	} else {
		l, err = loginFromEnv()
	}
	if err != nil {
		return l, err
	}
	if region != "" {
		l.Where.Region = region
	}
	l.Options.AllowReauth = l.Options.TokenID == "" // tokens expire in the middle of a long run
	return l, nil
}

func loginFromFile(cloud string) (Login, error) {
	l := Login{Source: `cloud "` + cloud + `" of ` + cloudsFile()}
	var err error
	l.Options, l.Where, l.TLS, err = clouds.Parse(clouds.WithCloudName(cloud))
	if err != nil {
		return l, fail.Wrap(fail.Invalid, err, "read the credentials of %s", l.Source).
			Do("name a cloud of your clouds.yaml in spec.provider.openstack.cloud or $OS_CLOUD; $OS_CLIENT_CONFIG_FILE tells where the file is")
	}
	if l.Options.IdentityEndpoint == "" {
		return l, fail.New(fail.Invalid, "%s has no auth.auth_url", l.Source)
	}
	return l, nil
}

// cloudsFile names the clouds.yaml that is read, by the rules of all OpenStack tools.
func cloudsFile() string {
	if f := os.Getenv("OS_CLIENT_CONFIG_FILE"); f != "" {
		return f
	}
	dirs := []string{"."}
	if x := os.Getenv("XDG_CONFIG_HOME"); x != "" {
		dirs = append(dirs, filepath.Join(x, "openstack"))
	} else if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs, filepath.Join(home, ".config", "openstack"))
	}
	for _, d := range append(dirs, "/etc/openstack") {
		f := filepath.Join(d, "clouds.yaml")
		if _, err := os.Stat(f); err == nil {
			return f
		}
	}
	return "clouds.yaml"
}

func loginFromEnv() (Login, error) {
	l := Login{Source: "the OS_* variables"}
	if os.Getenv("OS_AUTH_URL") == "" {
		return l, fail.New(fail.Invalid, "no cloud is named: neither spec.provider.openstack.cloud nor $OS_CLOUD nor $OS_AUTH_URL is set").
			Do(`put "cloud: NAME" of your clouds.yaml into the document, or source your openrc file`)
	}
	var missing string
	if l.Options, missing = optionsFromEnv(); missing != "" {
		return l, fail.New(fail.Invalid, "read the credentials of %s: %s is not set", l.Source, missing).Do("source your openrc file, or name a cloud of your clouds.yaml")
	}
	l.Where = gophercloud.EndpointOpts{Region: os.Getenv("OS_REGION_NAME"), Availability: availability(firstOf("OS_INTERFACE", "OS_ENDPOINT_TYPE"))}
	var err error
	l.TLS, err = tlsFromEnv()
	return l, err
}

// optionsFromEnv takes an application credential, a user and a password, or a token, in this order, by the names that other OpenStack
// tools know; missing reports which variable lacks. gophercloud's own reader knows fewer of them, and wants OS_DOMAIN_NAME where openrc
// files of our days set OS_USER_DOMAIN_NAME.
func optionsFromEnv() (o gophercloud.AuthOptions, missing string) {
	o.IdentityEndpoint = os.Getenv("OS_AUTH_URL")
	if wanted, token := tokenFromEnv(); wanted {
		o.TokenID, o.Scope = token, scopeFromEnv()
		if token == "" {
			return o, "OS_TOKEN"
		}
		return o, ""
	}
	o.ApplicationCredentialID, o.ApplicationCredentialSecret = os.Getenv("OS_APPLICATION_CREDENTIAL_ID"), os.Getenv("OS_APPLICATION_CREDENTIAL_SECRET")
	if o.ApplicationCredentialID == "" {
		o.ApplicationCredentialName = os.Getenv("OS_APPLICATION_CREDENTIAL_NAME")
	}
	app := o.ApplicationCredentialID != "" || o.ApplicationCredentialName != ""
	if app && o.ApplicationCredentialSecret == "" {
		return o, "OS_APPLICATION_CREDENTIAL_SECRET"
	}
	if o.ApplicationCredentialID != "" {
		return o, ""
	}
	if !app {
		o.Scope = scopeFromEnv()
	}
	o.UserID = firstOf("OS_USER_ID", "OS_USERID")
	if o.UserID == "" {
		if o.Username = os.Getenv("OS_USERNAME"); o.Username == "" {
			return o, "OS_USERNAME"
		}
		if o.DomainID = firstOf("OS_USER_DOMAIN_ID", "OS_DOMAIN_ID"); o.DomainID == "" {
			o.DomainName = firstOf("OS_USER_DOMAIN_NAME", "OS_DOMAIN_NAME", "OS_DEFAULT_DOMAIN")
		}
	}
	if app {
		return o, ""
	}
	o.Password, o.Passcode = os.Getenv("OS_PASSWORD"), os.Getenv("OS_PASSCODE")
	if o.Password == "" && o.Passcode == "" {
		return o, "OS_PASSWORD"
	}
	return o, ""
}

// tokenFromEnv reports whether one logs in by token: where the variables say so, or where they hold nothing else. A token that is left
// in the environment beside a password ends in the middle of a run.
func tokenFromEnv() (wanted bool, token string) {
	token = firstOf("OS_TOKEN", "OS_AUTH_TOKEN")
	other := firstOf("OS_PASSWORD", "OS_PASSCODE", "OS_APPLICATION_CREDENTIAL_ID", "OS_APPLICATION_CREDENTIAL_NAME")
	return strings.HasSuffix(os.Getenv("OS_AUTH_TYPE"), "token") || token != "" && other == "", token
}

func scopeFromEnv() *gophercloud.AuthScope {
	if id := firstOf("OS_PROJECT_ID", "OS_TENANT_ID"); id != "" {
		return &gophercloud.AuthScope{ProjectID: id}
	}
	name := firstOf("OS_PROJECT_NAME", "OS_TENANT_NAME")
	if name == "" {
		return nil
	}
	s := &gophercloud.AuthScope{ProjectName: name, DomainID: firstOf("OS_PROJECT_DOMAIN_ID", "OS_DOMAIN_ID")}
	if s.DomainID == "" {
		s.DomainName = firstOf("OS_PROJECT_DOMAIN_NAME", "OS_DOMAIN_NAME", "OS_DEFAULT_DOMAIN", "OS_USER_DOMAIN_NAME")
	}
	return s
}

func firstOf(keys ...string) string {
	for _, k := range keys {
		if v := os.Getenv(k); v != "" {
			return v
		}
	}
	return ""
}

func availability(iface string) gophercloud.Availability {
	switch strings.TrimSuffix(iface, "URL") {
	case "internal":
		return gophercloud.AvailabilityInternal
	case "admin":
		return gophercloud.AvailabilityAdmin
	}
	return gophercloud.AvailabilityPublic
}
