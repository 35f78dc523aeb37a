package addon

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle/catalogue"
	"github.com/naupegos/naupegos/internal/fail"
)

// ExternalDNSNamespace is the namespace of the addon external-dns, which holds its key.
const ExternalDNSNamespace = "external-dns"

// ExternalDNSPort is the port at which external-dns answers /synced.
const ExternalDNSPort = "7979"

func externalDNS(in Input, a v1alpha1.Addon) ([]byte, error) {
	ref, err := image(in.Bundle, catalogue.ExternalDNS, a.Name)
	if err != nil {
		return nil, err
	}
	e := a.ExternalDNS
	name, secret, err := in.UpdateKey(e.RFC2136)
	if err != nil {
		return nil, err
	}
	if _, err := base64.StdEncoding.DecodeString(secret); err != nil {
		return nil, fail.New(fail.Invalid, "the secret of the TSIG key %q for %s is not base64", name, e.RFC2136.Server).Do("write the key as NAME:SECRET, with the secret of the name server's key file") // cause withheld: it may quote the secret
	}
	args := []string{"--rfc2136-host=" + e.RFC2136.Server, fmt.Sprintf("--rfc2136-port=%d", e.RFC2136.Port), "--rfc2136-tsig-secret-alg=" + e.RFC2136.Algorithm,
		"--policy=" + e.Policy, "--txt-owner-id=" + e.OwnerID, "--interval=" + e.Interval.String()}
	for _, z := range e.RFC2136.Zones {
		args = append(args, "--rfc2136-zone="+z)
	}
	for _, d := range e.Domains {
		args = append(args, "--domain-filter="+d)
	}
	for _, s := range e.Sources {
		args = append(args, "--source="+s)
	}
	sum := sha256.Sum256([]byte(name + ":" + secret)) // half of it does not reveal a long random secret
	has := func(source string) bool { return slices.Contains(e.Sources, source) }
	return render(a.Name, externalDNSManifest, map[string]any{
		"Image": ref, "Args": args, "Checksum": hex.EncodeToString(sum[:16]),
		"KeyName": base64.StdEncoding.EncodeToString([]byte(name)), "KeySecret": base64.StdEncoding.EncodeToString([]byte(secret)),
		"Service": has(v1alpha1.SourceService), "Ingress": has(v1alpha1.SourceIngress), "HTTPRoute": has(v1alpha1.SourceHTTPRoute),
	})
}
