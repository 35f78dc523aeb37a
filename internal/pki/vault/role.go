package vault

import (
	"fmt"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/pki"
)

// role is a role of a PKI secrets engine: a kind of certificate that it signs. Vault takes a certificate's organizations, which Kubernetes
// reads as groups, from the role and not from the request, so each set of organizations has a role.
type role struct {
	name           string
	organizations  []string
	server, client bool
}

// roleOf returns the role that signs a certificate.
func roleOf(s pki.LeafSpec) role {
	name := "client"
	switch {
	case s.Server && s.Client:
		name = "peer"
	case s.Server:
		name = "server"
	}
	groups := slices.Sorted(slices.Values(s.Organizations))
	var words []string
	for _, g := range groups {
		words = append(words, strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
				return r
			}
			return '-'
		}, g))
	}
	if len(words) > 0 {
		name += "-" + strings.Join(words, ".")
	}
	return role{name: strings.TrimRight(name, "-."), organizations: groups, server: s.Server, client: s.Client}
}

// roles lists the roles that a cluster needs in an authority's mount.
func roles(authority string) (all []role) {
	for _, s := range map[string][]pki.LeafSpec{
		pki.KubernetesCA: {
			{Server: true}, {Client: true},
			{Server: true, Organizations: []string{"system:nodes"}}, {Client: true, Organizations: []string{"system:nodes"}},
			{Client: true, Organizations: []string{"kubeadm:cluster-admins"}}, {Client: true, Organizations: []string{"system:masters"}},
		},
		pki.EtcdCA:       {{Server: true, Client: true}, {Client: true}},
		pki.FrontProxyCA: {{Client: true}},
	}[authority] {
		all = append(all, roleOf(s))
	}
	return all
}

// settings returns the arguments of vault write for a role.
func (r role) settings() []string {
	return append([]string{
		fmt.Sprintf("client_flag=%t", r.client), fmt.Sprintf("server_flag=%t", r.server), "organization=" + strings.Join(r.organizations, ","),
	}, "allow_any_name=true", "enforce_hostnames=false", "cn_validations=disabled", "key_type=ec", "key_bits=256",
		"key_usage=DigitalSignature,KeyEncipherment", "not_before_duration=5m", "ttl=8760h", "max_ttl=8760h")
}

// command returns the command that makes a role.
func (r role) command(mount string) string {
	return "vault write " + mount + "/roles/" + r.name + " " + strings.Join(r.settings(), " ")
}

// state is a role as Vault returns it.
type state struct {
	Client        bool     `json:"client_flag"`
	Server        bool     `json:"server_flag"`
	CodeSigning   bool     `json:"code_signing_flag"`
	Organizations []string `json:"organization"`
	AnyName       bool     `json:"allow_any_name"`
	Hostnames     bool     `json:"enforce_hostnames"`
	Validations   []string `json:"cn_validations"`
	CommonName    bool     `json:"use_csr_common_name"`
	Names         bool     `json:"use_csr_sans"`
	Addresses     bool     `json:"allow_ip_sans"`
	KeyType       string   `json:"key_type"`
	KeyBits       int      `json:"key_bits"`
	KeyUsage      []string `json:"key_usage"`
	MaxTTL        int      `json:"max_ttl"`             // seconds; 0: the mount's
	Before        int      `json:"not_before_duration"` // seconds
}

// lacks lists the settings of a role that keep it from signing its certificates.
func (r role) lacks(is state) (all []string) {
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{is.Client != r.client, fmt.Sprintf("client_flag is %t", is.Client)},
		{is.Server != r.server, fmt.Sprintf("server_flag is %t", is.Server)},
		{is.CodeSigning, "code_signing_flag is true"},
		{!slices.Equal(slices.Sorted(slices.Values(is.Organizations)), r.organizations), "organization is " + strings.Join(is.Organizations, ",")},
		{!is.AnyName, "allow_any_name is false"},
		{is.Hostnames, "enforce_hostnames is true"},
		{len(is.Validations) != 1 || is.Validations[0] != "disabled", "cn_validations is " + strings.Join(is.Validations, ",")},
		{!is.CommonName, "use_csr_common_name is false"},
		{!is.Names, "use_csr_sans is false"},
		{r.server && !is.Addresses, "allow_ip_sans is false"},
		{is.KeyType != "any" && (is.KeyType != "ec" || is.KeyBits != 0 && is.KeyBits != 256), fmt.Sprintf("key_type is %s with %d bits", is.KeyType, is.KeyBits)},
		{!slices.Contains(is.KeyUsage, "DigitalSignature"), "key_usage is " + strings.Join(is.KeyUsage, ",")},
	} {
		if c.bad {
			all = append(all, c.what)
		}
	}
	return all
}
