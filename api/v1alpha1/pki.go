package v1alpha1

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/url"
	"path"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
)

// PKI configures the cluster's certificate authorities.
type PKI struct {
	// Who holds the authorities' keys and signs certificates. Left out: Naupegos, which keeps the keys encrypted in its store.
	Issuer *Issuer `json:"issuer,omitempty" yaml:"issuer,omitempty"`
}

// VaultIssuer returns the Vault that signs the cluster's certificates, or nil if Naupegos does.
func (p PKI) VaultIssuer() *Vault {
	if p.Issuer == nil {
		return nil
	}
	return p.Issuer.Vault
}

// Issuer says who signs certificates.
type Issuer struct {
	// PKI secrets engines of a HashiCorp Vault or OpenBao server. The authorities' keys never leave it.
	Vault *Vault `json:"vault" yaml:"vault" jsonschema:"required"`
}

// Vault is a HashiCorp Vault or OpenBao server with a PKI secrets engine for each authority of the cluster. The login secret is not part of the
// document.
type Vault struct {
	// Address of the server, such as https://vault.example.org:8200.
	Address string `json:"address" yaml:"address" jsonschema:"required" host:"address"`
	// Mount path prefix of the PKI secrets engines: with pki/demo they are pki/demo/kubernetes-ca, pki/demo/etcd-ca and pki/demo/front-proxy-ca. Each cluster needs its own.
	Mount string `json:"mount" yaml:"mount" jsonschema:"required,maxLength=200"`
	// Namespace on the server, if it has namespaces.
	Namespace string `json:"namespace,omitempty" yaml:"namespace,omitempty" jsonschema:"maxLength=200"`
	// CA certificate (PEM) of the server, if this host does not trust it already.
	CA string `json:"ca,omitempty" yaml:"ca,omitempty" host:"none"`
	// How to sign in.
	Auth VaultAuth `json:"auth,omitzero" yaml:"auth,omitempty"`
}

// The ways to sign in to Vault.
const (
	VaultToken      = "token"
	VaultAppRole    = "appRole"
	VaultKubernetes = "kubernetes"
)

// VaultAuth says how to sign in to Vault.
type VaultAuth struct {
	// Login method: a token ($VAULT_TOKEN), an AppRole ($VAULT_ROLE_ID and $VAULT_SECRET_ID), or, if naupegos runs in a pod, the pod's service account.
	Method string `json:"method,omitempty" yaml:"method,omitempty" jsonschema:"default=token,enum=token,enum=appRole,enum=kubernetes"`
	// Mount of the auth method. Left out: approle or kubernetes.
	Mount string `json:"mount,omitempty" yaml:"mount,omitempty" jsonschema:"maxLength=200"`
	// Role of the auth method. Only with method kubernetes.
	Role string `json:"role,omitempty" yaml:"role,omitempty" jsonschema:"maxLength=200"`
	// Absolute path of a file with the login secret, instead of the environment variables: the token, or the lines role_id=… and secret_id=…. Only its owner may have access to it. Not with method kubernetes, which uses the pod's own token.
	CredentialsFile string `json:"credentialsFile,omitempty" yaml:"credentialsFile,omitempty" host:"file"`
	// Name of a credential (naupegos server credential add) whose value is the content of such a file, instead of credentialsFile. With methods token and appRole, a server accepts nothing else.
	Credential string `json:"credential,omitempty" yaml:"credential,omitempty" jsonschema:"maxLength=63,pattern=^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$" host:"credential"`
}

// checkPKI checks the issuer.
func (c *Cluster) checkPKI(r *findings) {
	v := c.Spec.PKI.VaultIssuer()
	if v == nil {
		return
	}
	const at = "spec.pki.issuer.vault"
	u, err := url.Parse(v.Address)
	switch {
	case v.Address == "":
	case err == nil && u.User != nil: // never shown
		r.Add(at+".address", "holds credentials", "leave them away: they come from the environment or a file")
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		r.Add(at+".address", strict.Quote(v.Address)+" is not the address of a server", "as https://vault.example.org:8200")
	case u.Scheme == "http" && !loopback(u.Hostname()):
		r.Add(at+".address", strict.Quote(v.Address)+" is reached without TLS: everybody on the way could read what signs in", "write https")
	case u.Scheme == "http" && v.CA != "":
		r.Add(at+".ca", "is given, but the server is not reached by https", "remove it, or write https", at+".address")
	}
	if v.Mount != "" && !plainMount(v.Mount) {
		r.Add(at+".mount", strict.Quote(v.Mount)+" is not the path of a mount", "as pki/demo")
	}
	if v.Namespace != "" && !plainMount(v.Namespace) {
		r.Add(at+".namespace", strict.Quote(v.Namespace)+" is not the path of a namespace", "as team-a/kubernetes")
	}
	if v.CA != "" && !isCertificate(v.CA) {
		r.Add(at+".ca", "is not a certificate in PEM", "it begins with -----BEGIN CERTIFICATE-----")
	}
	v.Auth.check(r, at+".auth")
}

func (a VaultAuth) check(r *findings, at string) {
	switch {
	case a.Method == VaultKubernetes && a.Role == "":
		r.Add(at+".role", "is required with method kubernetes", "name the role of Vault's auth method that the service account is bound to", at+".method")
	case a.Method == VaultKubernetes && !plainMount(a.Role):
		r.Add(at+".role", strict.Quote(a.Role)+" is not the name of a role", "as naupegos")
	case a.Method != VaultKubernetes && a.Role != "":
		r.Add(at+".role", "belongs to method kubernetes, but the method is another", "remove it", at+".method")
	}
	switch {
	case a.Mount != "" && a.Method == VaultToken:
		r.Add(at+".mount", "is given, but a token needs no auth method", "remove it", at+".method")
	case a.Mount != "" && !plainMount(a.Mount):
		r.Add(at+".mount", strict.Quote(a.Mount)+" is not the path of a mount", "as approle")
	}
	for field, given := range map[string]string{"credentialsFile": a.CredentialsFile, "credential": a.Credential} {
		if given != "" && a.Method == VaultKubernetes {
			r.Add(at+"."+field, "belongs to methods token and appRole; method kubernetes reads the token that pods have", "remove it", at+".method")
		}
	}
	if a.CredentialsFile != "" && !plainPath(a.CredentialsFile) {
		r.Add(at+".credentialsFile", strict.Quote(a.CredentialsFile)+" is not an absolute path", "as /etc/naupegos/vault")
	}
	checkCredential(r, at, "credentialsFile", a.CredentialsFile, a.Credential)
}

// plainMount reports whether a Vault path is clean and has no characters with a special meaning in a policy or a shell.
func plainMount(p string) bool {
	return path.Clean("/"+p) == "/"+p && strings.Trim(p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/_.-") == ""
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func isCertificate(text string) bool {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE" {
		return false
	}
	_, err := x509.ParseCertificate(block.Bytes)
	return err == nil
}
