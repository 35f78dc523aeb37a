package settings

import (
	"maps"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Method is an authentication method.
type Method string

// The supported methods.
const (
	Password              Method = "password" // with or without a passcode
	Passcode              Method = "passcode" // alone
	Token                 Method = "token"
	ApplicationCredential Method = "application credential"
)

// Domain identifies a domain by its ID or name.
type Domain struct{ ID, Name string }

// Settings is a validated login to a cloud. Only the method's fields are set.
type Settings struct {
	Source  string // origin, for messages
	AuthURL string // of the identity service; ends with /v3
	Method  Method

	UserID     string // or Username with UserDomain
	Username   string
	UserDomain Domain
	Password   string
	Passcode   string
	Token      string

	CredentialID     string // or CredentialName with the user
	CredentialName   string
	CredentialSecret string

	ProjectID     string // or ProjectName with ProjectDomain; or TrustID; or none: the user's default project
	ProjectName   string
	ProjectDomain Domain
	TrustID       string

	Region    string
	Interface string // of the catalog: "public", "internal", "admin"

	CACert   []byte // PEM of the authorities; empty: the system's
	Cert     []byte // PEM of the client's certificate; empty: none
	Key      []byte // PEM of its key
	Insecure bool   // don't verify certificates

	Notes []string // assumptions and oddities, shown when the login fails
}

// String names the source and hides the secrets.
func (s Settings) String() string { return s.Source }

// GoString hides the secrets from %#v too.
func (s Settings) GoString() string { return s.Source }

// Read reads the settings of a cloud in clouds.yaml (the given one, else $OS_CLOUD), or else the OS_* variables. A non-empty region takes precedence over
// all others. Every error is fail.Invalid.
func Read(src Source, cloud, region string) (Settings, error) {
	c, err := choose(src, cloud)
	if err != nil {
		return Settings{}, err
	}
	if c, err = c.inRegion(region, src.Getenv("OS_REGION_NAME")); err != nil {
		return Settings{}, err
	}
	if c.nothingAbout(authKeys) {
		return Settings{}, fail.New(fail.Invalid, "%s has no auth section", c.source).
			Do("write auth: {auth_url: …, username: …} below the cloud's name, two columns further in; secrets may be in secure.yaml")
	}
	s := Settings{Source: c.source}
	for _, step := range []func(*Settings) error{c.method, c.address, c.user, c.scope, c.services, c.overrides} {
		if err := step(&s); err != nil {
			return Settings{}, err
		}
	}
	if err := c.trust(src, &s); err != nil {
		return Settings{}, err
	}
	return s, nil
}

// Trust reads only the certificates of a cloud in a region, if a login is set. The region is chosen as by Read.
func Trust(src Source, cloud, region string) (s Settings, err error) {
	if cloud == "" && src.Getenv("OS_CLOUD") == "" && src.Getenv("OS_AUTH_URL") == "" {
		if cloud, err = only(src); err != nil || cloud == "" {
			return s, err
		}
	}
	c, err := choose(src, cloud)
	if err != nil {
		return s, err
	}
	if c, err = c.inRegion(region, src.Getenv("OS_REGION_NAME")); err != nil {
		return s, err
	}
	err = c.trust(src, &s)
	return s, err
}

// choose finds the settings of the selected cloud.
func choose(src Source, cloud string) (c chosen, err error) {
	if cloud == "" {
		cloud = src.Getenv("OS_CLOUD")
	}
	if cloud != "" {
		if c, err = fromFiles(src, cloud); err != nil {
			return c, err
		}
		c.env = src.firstOf("OS_INTERFACE", "OS_ENDPOINT_TYPE")
		return c, nil
	}
	c = chosen{source: "the OS_* variables"}
	if src.Getenv("OS_AUTH_URL") == "" {
		if cloud, err = only(src); err != nil {
			return c, err
		}
		if cloud != "" {
			return choose(src, cloud)
		}
		return c, fail.New(fail.Invalid, "no cloud is named: neither spec.provider.openstack.cloud nor $OS_CLOUD nor $OS_AUTH_URL is set").
			Do(`put "cloud: NAME" of your clouds.yaml into the document, or source your openrc file`)
	}
	c.entry, err = fromEnv(src)
	return c, err
}

// only returns the name of the cloud in the files if there is exactly one, as openstacksdk takes it; else empty.
func only(src Source) (string, error) {
	f, err := readFiles(src)
	if err != nil {
		return "", err
	}
	names := map[string]bool{}
	for _, n := range []node{f.clouds, f.secure} {
		all, err := n.members()
		if err != nil {
			return "", err
		}
		for _, m := range all {
			names[m.key] = true
		}
	}
	if len(names) != 1 {
		return "", nil
	}
	return slices.Collect(maps.Keys(names))[0], nil
}

// beside lists settings that openstacksdk moves from outside of auth into it, where they take precedence.
var beside = map[string]bool{
	"project_id": true, "project_name": true, "tenant_id": true, "tenant_name": true, "project_domain_id": true, "project_domain_name": true,
	"user_domain_id": true, "user_domain_name": true, "domain_id": true, "domain_name": true, "token": true, "auth_token": true, "passcode": true,
}

// get returns the first non-empty setting of several.
func (c chosen) get(keys ...string) value {
	for _, k := range keys {
		first, second := c.auth, c.top
		if beside[k] {
			first, second = c.top, c.auth
		}
		for _, m := range []map[string]value{first, second} {
			if v := m[k]; v.text != "" {
				return v
			}
		}
	}
	return value{}
}

// name is get for settings that are not secret. It trims white space.
func (c chosen) name(keys ...string) string { return strings.TrimSpace(c.get(keys...).text) }

// lacks returns the error for a missing setting.
func (c chosen) lacks(key string) *fail.Error {
	e := fail.New(fail.Invalid, "read the credentials of %s: %s is not set", c.source, c.field(key))
	if c.file == "" {
		return e.Do("source your openrc file, or name a cloud of your clouds.yaml")
	}
	switch key {
	case "password", "application_credential_secret", "token", "passcode":
		return e.Do("add it to secure.yaml next to that file, below the same keys, or to that file; Naupegos does not prompt for it")
	}
	return e.Do("add it to that file; `openstack token issue` shows whether it is complete")
}

// bad returns the error for an invalid setting.
func bad(v value, format string, args ...any) *fail.Error {
	return fail.New(fail.Invalid, format, args...).At(v.at)
}
