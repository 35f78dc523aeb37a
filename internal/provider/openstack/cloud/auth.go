package cloud

import (
	"crypto/tls"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/provider/openstack/settings"
)

// Login is a login to a cloud, from the settings that every OpenStack tool reads.
type Login struct {
	Settings settings.Settings // the source of the other fields
	Options  gophercloud.AuthOptions
	Where    gophercloud.EndpointOpts
	TLS      *tls.Config
	Source   string // origin of the credentials, for display; never the secret
}

// ReadLogin reads clouds.yaml (and secure.yaml) where the document or $OS_CLOUD names a cloud, else the OS_* variables.
func ReadLogin(cloud, region string) (Login, error) {
	return LoginFrom(settings.System(), cloud, region)
}

// LoginFrom is ReadLogin with files and variables from src.
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

// options converts settings to gophercloud's options, without fields that its checks refuse.
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

// ClientCertificate returns the client certificate and key (PEM) in the user's settings of a cloud and region; empty if there are none.
func ClientCertificate(cloud, region string) (cert, key []byte, err error) {
	s, err := settings.Trust(settings.System(), cloud, region)
	return s.Cert, s.Key, err
}

// CACert returns the authorities' certificates (PEM) in the user's settings of a cloud of clouds.yaml, by default of $OS_CLOUD; empty if there
// are none.
func CACert(cloud, region string) (string, error) {
	s, err := settings.Trust(settings.System(), cloud, region)
	return string(s.CACert), err
}
