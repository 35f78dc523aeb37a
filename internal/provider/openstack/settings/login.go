package settings

import (
	"net/url"
	"regexp"
	"strings"
)

// method determines the login method from auth_type, or else from the available settings. It refuses unsupported types by name, because a password for a
// single sign-on must not be sent to the identity service.
func (c chosen) method(s *Settings) error {
	said := c.get("auth_type", "auth_plugin")
	switch kind := strings.ToLower(strings.TrimSpace(said.text)); kind {
	case "":
		s.Method = c.inferred()
	case "password", "v3password":
		s.Method = Password
	case "token", "v3token":
		s.Method = Token
	case "v3totp":
		s.Method = Passcode
	case "v3applicationcredential":
		s.Method = ApplicationCredential
	case "v3multifactor":
		return c.factors(s)
	case "v2password", "v2token":
		return bad(said, "auth_type %s is not supported: version 2 of the identity API was removed in 2018", kind).Do("write auth_type: password, and set the domains of user and project")
	default:
		return bad(said, "auth_type %s is not supported; nothing was sent", kind).
			Do("log in with the openstack command, make an application credential with `openstack application credential create --unrestricted NAME`, and use that: auth_type v3applicationcredential")
	}
	return nil
}

// factors reads auth_methods of v3multifactor.
func (c chosen) factors(s *Settings) error {
	said := c.get("auth_methods")
	if said.text == "" {
		return c.lacks("auth_methods")
	}
	s.Method = Passcode
	for _, m := range strings.Split(said.text, ",") {
		switch strings.TrimSpace(m) {
		case "v3password", "password":
			s.Method = Password
		case "v3totp", "totp":
		default:
			return bad(said, "the authentication method %s is not supported; nothing was sent", strings.TrimSpace(m)).Do("use v3password and v3totp, or an application credential")
		}
	}
	return nil
}

// inferred determines the method from the available settings. It prefers a password to a token, because a leftover token might expire during a run.
func (c chosen) inferred() Method {
	switch {
	case c.get("application_credential_id", "application_credential_name").text != "":
		return ApplicationCredential
	case c.get("password").text != "":
		return Password
	case c.get("passcode").text != "":
		return Passcode
	case c.get("token", "auth_token").text != "":
		return Token
	}
	return Password
}

var (
	versionAtEnd = regexp.MustCompile(`/v(\d+)(\.\d+)?$`)
	placeholder  = regexp.MustCompile(`\{[^}]*\}`)
	variable     = regexp.MustCompile(`^\$(\{[A-Za-z_]\w*\}|[A-Za-z_]\w*)$`)
)

// address determines the address of the identity service, with version 3.
func (c chosen) address(s *Settings) error {
	v := c.get("auth_url")
	if v.text == "" {
		return c.lacks("auth_url")
	}
	raw := strings.ReplaceAll(strings.TrimSpace(v.text), "{region_name}", c.top["region_name"].text) // as in profiles
	if p := placeholder.FindString(raw); p != "" {
		return bad(v, "the address contains the placeholder %s", p).Do("write the full address")
	}
	const hint = "write it like https://keystone.example.org:5000/v3"
	u, err := url.Parse(raw)
	switch {
	case !strings.Contains(raw, "://"):
		return bad(v, "the address has no scheme").Do(hint)
	case err != nil: // the cause quotes the address, which might contain a password
		return bad(v, "the address can't be read").Do(hint)
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return bad(v, "the address %s is not an HTTP URL", u.Redacted()).Do(hint)
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return bad(v, "the address has more than scheme, host, port and path").Do(hint)
	}
	path := strings.TrimRight(strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/auth/tokens"), "/")
	for m := versionAtEnd.FindStringSubmatch(path); m != nil; m = versionAtEnd.FindStringSubmatch(path) { // some dashboards write /v3/v3
		if m[1] != "2" && m[1] != "3" {
			return bad(v, "the address is of version %s of the identity API", m[1]).Do("version 3 is needed: %s", hint)
		}
		path = strings.TrimRight(strings.TrimSuffix(path, m[0]), "/")
	}
	u.Path, u.RawPath = path+"/v3", ""
	s.AuthURL = u.String()
	return nil
}

// user determines the user. An ID takes precedence over a name.
func (c chosen) user(s *Settings) error {
	switch s.Method {
	case Token:
		if s.Token = c.get("token", "auth_token").text; s.Token == "" {
			return c.lacks("token")
		}
		return nil
	case ApplicationCredential:
		secret := c.get("application_credential_secret")
		if s.CredentialSecret = secret.text; s.CredentialSecret == "" {
			return c.lacks("application_credential_secret")
		}
		s.literal(secret)
		if s.CredentialID = c.name("application_credential_id"); s.CredentialID != "" {
			return nil
		}
		if s.CredentialName = c.name("application_credential_name"); s.CredentialName == "" {
			return c.lacks("application_credential_id")
		}
	}
	if s.UserID = c.name("user_id", "userid"); s.UserID == "" {
		if s.Username = c.name("username", "user_name"); s.Username == "" {
			return c.lacks("username")
		}
		s.UserDomain = c.domain(s, "user")
	}
	return c.secrets(s)
}

// secrets reads the user's password and passcode.
func (c chosen) secrets(s *Settings) error {
	if s.Method == ApplicationCredential {
		return nil
	}
	s.Passcode = c.get("passcode").text
	if s.Method == Passcode && s.Passcode == "" {
		return c.lacks("passcode")
	}
	if s.Method == Passcode {
		return nil
	}
	password := c.get("password")
	if s.Password = password.text; s.Password == "" {
		return c.lacks("password")
	}
	s.literal(password)
	return nil
}

// literal notes a secret that is probably not what its owner meant, but is used as it is.
func (s *Settings) literal(v value) {
	switch {
	case variable.MatchString(v.text):
		s.Notes = append(s.Notes, v.at+" looks like the name of a variable, but is used literally")
	case strings.TrimSpace(v.text) != v.text:
		s.Notes = append(s.Notes, v.at+" begins or ends with a blank, which is used as a part of it")
	}
}

// domain determines the domain of the user or the project. The ID takes precedence over the name; without either, it is the default domain.
func (c chosen) domain(s *Settings, of string) Domain {
	id, name := []string{of + "_domain_id"}, []string{of + "_domain_name"}
	if c.ofProject() { // otherwise domain_id is the scope
		id, name = append(id, "domain_id"), append(name, "domain_name")
	}
	d := Domain{ID: c.name(id...)}
	if d.ID == "" {
		d.Name = c.name(name...)
	}
	if d == (Domain{}) {
		d.ID = c.name("default_domain_id")
	}
	if d == (Domain{}) {
		d.Name = c.name("default_domain_name")
	}
	if d == (Domain{}) {
		d.ID = c.name("default_domain")
	}
	if d == (Domain{}) {
		d.ID = "default"
		s.Notes = append(s.Notes, c.field(of+"_domain_name")+" is not set, so the domain ID default was used")
	}
	return d
}

// ofProject reports whether a project is named.
func (c chosen) ofProject() bool {
	return c.name("project_id", "tenant_id", "project_name", "tenant_name") != ""
}

// scope determines the project. An application credential implies it.
func (c chosen) scope(s *Settings) error {
	if s.Method == ApplicationCredential {
		return nil
	}
	project, trust, system := c.get("project_id", "tenant_id", "project_name", "tenant_name"), c.get("trust_id"), c.get("system_scope")
	domain := value{}
	if !c.ofProject() {
		domain = c.get("domain_id", "domain_name")
	}
	var said []value
	for _, v := range []value{project, trust, system, domain} {
		if v.text != "" {
			said = append(said, v)
		}
	}
	switch {
	case len(said) > 1:
		return bad(said[1], "it conflicts with %s", said[0].at).Do("remove one of the two: servers belong to projects")
	case system.text != "", domain.text != "":
		return bad(said[0], "this scope is not a project, but servers belong to projects").Do("remove it, and set project_name or project_id")
	case trust.text != "":
		s.TrustID = strings.TrimSpace(trust.text)
		return nil
	}
	if s.ProjectID = c.name("project_id", "tenant_id"); s.ProjectID != "" {
		return nil
	}
	if s.ProjectName = c.name("project_name", "tenant_name"); s.ProjectName != "" {
		s.ProjectDomain = c.domain(s, "project")
	}
	return nil
}

// services determines region and interface. As in the openstack command, $OS_INTERFACE takes precedence over the file.
func (c chosen) services(s *Settings) error {
	s.Region = c.name("region_name")
	v := c.get("interface", "endpoint_type")
	if c.env != "" {
		v = value{c.env, "$OS_INTERFACE"}
	}
	if strings.Contains(v.text, ",") {
		return bad(v, "several interfaces are named, but programs in the cluster use one").Do("write interface: public, internal or admin")
	}
	switch strings.ToLower(strings.TrimSuffix(strings.TrimSpace(v.text), "URL")) {
	case "", "public":
		s.Interface = "public"
	case "internal":
		s.Interface = "internal"
	case "admin":
		s.Interface = "admin"
	default:
		return bad(v, "the interface %q is not public, internal or admin", v.text)
	}
	return nil
}

// overrides refuses addresses of services in the settings, because programs in the cluster find services only through the catalog.
func (c chosen) overrides(*Settings) error {
	for _, service := range services {
		for _, k := range []string{service + "_endpoint_override", service + "_endpoint"} {
			if v := c.top[k]; v.text != "" {
				return bad(v, "a service's address is overridden here, but programs in the cluster use only the catalog").
					Do("remove it; ask the cloud's operator to correct the catalog")
			}
		}
	}
	return nil
}
