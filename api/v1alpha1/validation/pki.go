package validation

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/url"
	"path"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
	"github.com/naupegos/naupegos/api/v1alpha1"
)

// checkPKI checks the issuer.
func checkPKI(c *v1alpha1.Cluster, r *findings) {
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
		r.Add(at+".address", strict.Quote(v.Address)+" is reached without TLS: everyone on the way could read the credentials", "write https")
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
	checkVaultAuth(v.Auth, r, at+".auth")
}

func checkVaultAuth(a v1alpha1.VaultAuth, r *findings, at string) {
	switch {
	case a.Method == v1alpha1.VaultKubernetes && a.Role == "":
		r.Add(at+".role", "is required with method kubernetes", "name the role of Vault's auth method that the service account is bound to", at+".method")
	case a.Method == v1alpha1.VaultKubernetes && !plainMount(a.Role):
		r.Add(at+".role", strict.Quote(a.Role)+" is not the name of a role", "as naupegos")
	case a.Method != v1alpha1.VaultKubernetes && a.Role != "":
		r.Add(at+".role", "belongs to method kubernetes, but the method is another", "remove it", at+".method")
	}
	switch {
	case a.Mount != "" && a.Method == v1alpha1.VaultToken:
		r.Add(at+".mount", "is given, but a token needs no auth method", "remove it", at+".method")
	case a.Mount != "" && !plainMount(a.Mount):
		r.Add(at+".mount", strict.Quote(a.Mount)+" is not the path of a mount", "as approle")
	}
	for field, given := range map[string]string{"credentialsFile": a.CredentialsFile, "credential": a.Credential} {
		if given != "" && a.Method == v1alpha1.VaultKubernetes {
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
