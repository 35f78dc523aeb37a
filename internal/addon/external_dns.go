package addon

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// ExternalDNSNamespace is the namespace of the addon external-dns, which holds its key.
const ExternalDNSNamespace = "external-dns"

// ExternalDNSPort is the port at which external-dns answers /synced.
const ExternalDNSPort = "7979"

// CloudLogin is the access of an addon's program to the cluster's cloud.
type CloudLogin struct {
	AuthURL, CredentialID, Secret string
	Region, Interface             string // empty: the only one, and public
	Insecure                      bool   // don't verify the cloud's certificate
	Authorities                   []byte // PEM; empty: the system's
	ClientCert, ClientKey         []byte // PEM; empty: none
}

// externalDNSAddon describes the addon external-dns.
func externalDNSAddon(a v1alpha1.Addon) Addon {
	to := "Designate"
	if s := a.ExternalDNS.RFC2136; s != nil {
		to = s.Server
	}
	return Addon{Name: a.Name, Title: "names of Services and Ingresses in DNS (external-dns)", Reason: "it publishes names at " + to, Secret: true,
		Workloads: []Workload{{"Deployment", a.Name, ExternalDNSNamespace}}}
}

// externalDNS renders external-dns; nil while the cluster has no access to Designate yet.
func externalDNS(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.ExternalDNS, a.Name)
	if err != nil {
		return nil, err
	}
	e := a.ExternalDNS
	values := updateValues
	if e.Designate != nil {
		values = designateValues
	}
	of, err := values(in, e)
	if err != nil || of == nil {
		return nil, err
	}
	args := append(of["Args"].([]string), "--policy="+e.Policy, "--txt-owner-id="+e.OwnerID, "--interval="+e.Interval.String())
	for _, z := range e.Zones() {
		args = append(args, of["Zone"].(string)+z)
	}
	for _, d := range e.Domains {
		args = append(args, "--domain-filter="+d)
	}
	for _, s := range e.Sources {
		args = append(args, "--source="+s)
	}
	has := func(source string) bool { return slices.Contains(e.Sources, source) }
	of["Image"], of["Args"] = ref, args
	of["Service"], of["Ingress"], of["HTTPRoute"] = has(v1alpha1.SourceService), has(v1alpha1.SourceIngress), has(v1alpha1.SourceHTTPRoute)
	return render(a.Name, externalDNSManifest, of)
}

// updateValues returns the manifest's values for a name server that takes dynamic updates.
func updateValues(in Input, e *v1alpha1.ExternalDNS) (map[string]any, error) {
	s := e.RFC2136
	name, secret, err := in.UpdateKey(*s)
	if err != nil {
		return nil, err
	}
	if _, err := base64.StdEncoding.DecodeString(secret); err != nil {
		return nil, fail.New(fail.Invalid, "the secret of the TSIG key %q for %s is not base64", name, s.Server).Do("write the key as NAME:SECRET, with the secret of the name server's key file") // cause withheld: it may quote the secret
	}
	sum := sha256.Sum256([]byte(name + ":" + secret)) // half of it does not reveal a long random secret
	return map[string]any{
		"Provider": "rfc2136", "Zone": "--rfc2136-zone=", "Cloud": map[string]string(nil), "Files": false, "Checksum": hex.EncodeToString(sum[:16]),
		"Args":    []string{"--rfc2136-host=" + s.Server, fmt.Sprintf("--rfc2136-port=%d", s.Port), "--rfc2136-tsig-secret-alg=" + s.Algorithm},
		"KeyName": base64.StdEncoding.EncodeToString([]byte(name)), "KeySecret": base64.StdEncoding.EncodeToString([]byte(secret)),
	}, nil
}

// designateValues returns the manifest's values for Designate; nil before the cluster has a credential of the cloud.
func designateValues(in Input, _ *v1alpha1.ExternalDNS) (map[string]any, error) {
	login, err := in.CloudLogin()
	if err != nil || login == nil {
		return nil, err
	}
	secret := map[string]string{"auth-url": login.AuthURL, "id": login.CredentialID, "secret": login.Secret}
	env := [][2]string{{"OS_AUTH_URL", "auth-url"}, {"OS_APPLICATION_CREDENTIAL_ID", "id"}, {"OS_APPLICATION_CREDENTIAL_SECRET", "secret"}}
	var plain [][2]string
	for _, v := range [][2]string{{"OS_REGION_NAME", login.Region}, {"OS_INTERFACE", login.Interface}} {
		if v[1] != "" {
			plain = append(plain, v)
		}
	}
	if login.Insecure {
		plain = append(plain, [2]string{"OS_INSECURE", "true"})
	}
	files := false
	for _, f := range []struct {
		name, key string
		data      []byte
	}{{"OS_CACERT", "ca.crt", login.Authorities}, {"OS_CERT", clientCertKey, login.ClientCert}, {"OS_KEY", clientKeyKey, login.ClientKey}} {
		if len(f.data) > 0 {
			secret[f.key], files = string(f.data), true
			plain = append(plain, [2]string{f.name, "/etc/cloud/" + f.key})
		}
	}
	text := ""
	for _, key := range slices.Sorted(maps.Keys(secret)) {
		text += key + "\x00" + secret[key] + "\x00"
		secret[key] = base64.StdEncoding.EncodeToString([]byte(secret[key]))
	}
	sum := sha256.Sum256([]byte(text)) // half of it does not reveal a long random secret
	return map[string]any{
		"Provider": "designate", "Zone": "--designate-zone=", "Args": []string(nil), "Checksum": hex.EncodeToString(sum[:16]),
		"Cloud": secret, "FromSecret": env, "Plain": plain, "Files": files,
	}, nil
}
