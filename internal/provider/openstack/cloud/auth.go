package cloud

import (
	"crypto/tls"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/provider/openstack/settings"
)

// Login is how one logs in to a cloud, as the user has set it up for every OpenStack tool.
type Login struct {
	Settings settings.Settings // what the rest is made of
	Options  gophercloud.AuthOptions
	Where    gophercloud.EndpointOpts
	TLS      *tls.Config
	Source   string // where the credentials came from, for people; never the secret
}

// ReadLogin reads clouds.yaml (and secure.yaml) where the document or $OS_CLOUD names a cloud, else the OS_* variables.
func ReadLogin(cloud, region string) (Login, error) {
	return LoginFrom(settings.System(), cloud, region)
}

// LoginFrom is ReadLogin with other files and variables than the process's.
func LoginFrom(src settings.Source, cloud, region string) (Login, error) {
	s, err := settings.Read(src, cloud, region)
	if err != nil {
		return Login{Source: s.Source}, err
	}
	l := Login{
		Settings: s, Source: s.Source, Options: options(s),
		Where: gophercloud.EndpointOpts{Region: s.Region, Availability: gophercloud.Availability(s.Interface)},
	}
	l.TLS, err = s.TLS()
	return l, err
}

// options says the same to gophercloud, with nothing in it that its checks refuse.
func options(s settings.Settings) gophercloud.AuthOptions {
	o := gophercloud.AuthOptions{IdentityEndpoint: s.AuthURL, AllowReauth: s.Method != settings.Token} // tokens expire in the middle of a long run
	switch s.Method {
	case settings.Token:
		o.TokenID = s.Token
	case settings.ApplicationCredential:
		o.ApplicationCredentialID, o.ApplicationCredentialName, o.ApplicationCredentialSecret = s.CredentialID, s.CredentialName, s.CredentialSecret
	default:
		o.Password, o.Passcode = s.Password, s.Passcode
	}
	if s.UserID != "" {
		o.UserID = s.UserID
	} else if s.Username != "" {
		o.Username, o.DomainID, o.DomainName = s.Username, s.UserDomain.ID, s.UserDomain.Name
	}
	switch {
	case s.TrustID != "":
		o.Scope = &gophercloud.AuthScope{TrustID: s.TrustID}
	case s.ProjectID != "":
		o.Scope = &gophercloud.AuthScope{ProjectID: s.ProjectID}
	case s.ProjectName != "":
		o.Scope = &gophercloud.AuthScope{ProjectName: s.ProjectName, DomainID: s.ProjectDomain.ID, DomainName: s.ProjectDomain.Name}
	}
	return o
}

// ClientCertificate returns the certificate and key (PEM) that the user's settings name for a cloud; empty where they name none.
func ClientCertificate(cloud string) (cert, key []byte, err error) {
	s, err := settings.Trust(settings.System(), cloud)
	return s.Cert, s.Key, err
}

// CACert returns the certificates (PEM) that the user's settings name for checking those of a cloud of clouds.yaml, of $OS_CLOUD where
// none is named; empty where they name none.
func CACert(cloud string) (string, error) {
	s, err := settings.Trust(settings.System(), cloud)
	return string(s.CACert), err
}
