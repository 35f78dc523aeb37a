package vault

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

const (
	// nextName is the name of the issuer that will succeed the one in use. An operator may have made it.
	nextName = "naupegos-next"
	// RotationToken is the environment variable with the token for rotations of authorities.
	RotationToken = "VAULT_ROTATION_TOKEN"
	// retired is the usage of an issuer that no longer signs certificates.
	retired = "read-only,crl-signing,ocsp-signing"
)

// kept is the part of an issuer that only callers with the right to rotate can read.
type kept struct {
	Name  string `json:"issuer_name"`
	Key   string `json:"key_id"`
	Usage string `json:"usage"`
}

// privileged makes a call that the everyday policy does not allow. It uses the token for rotations if there is one.
func (s *Server) privileged(ctx context.Context, method, path string, in, out any) error {
	token := strings.TrimSpace(os.Getenv(RotationToken))
	if token == "" || s.with.Closed || s.with.Credential != nil { // never use the host's variable with Closed, or in place of a document's credential
		return s.mayNot(s.signedIn(ctx, method, path, in, out))
	}
	a, err := s.call(ctx, method, path, token, in)
	if err != nil {
		return s.mayNot(err)
	}
	return decode(a.Data, out)
}

// mayNot adds a remedy to the error of a call that was refused for lack of rights.
func (s *Server) mayNot(err error) error {
	if statusOf(err) != http.StatusForbidden {
		return err
	}
	return fail.Wrap(fail.Unauthorized, err, "what signs in to Vault may not rotate authorities").
		Do("set $%s to a token that may: naupegos certs issuer %s --rotation prints the commands that make one", RotationToken, s.name)
}

// needed lists the paths that a rotation calls at a mount, each with the required capability; id is the issuer in use.
func needed(mount, id string) [][2]string {
	return [][2]string{
		{mount + "/root/generate/internal", "update"}, {mount + "/intermediate/cross-sign", "update"}, {mount + "/issuer/" + id, "read"}, {mount + "/issuer/" + id, "patch"},
		{mount + "/issuer/" + id + "/sign-intermediate", "update"}, {mount + "/config/issuers", "read"}, {mount + "/config/issuers", "update"},
	}
}

// MayRotate returns nil if Vault allows the rotation of these authorities, given by name with their certificates in use. It changes nothing.
func (s *Server) MayRotate(ctx context.Context, have map[string][]byte) error {
	var paths []string
	var rights [][2]string
	for _, authority := range pki.Authorities() {
		if have[authority] == nil {
			continue
		}
		mount := s.mount(authority)
		id, err := s.find(ctx, mount, have[authority])
		if err != nil {
			return err
		}
		for _, n := range needed(mount, id) {
			paths, rights = append(paths, n[0]), append(rights, n)
		}
	}
	may := map[string]any{}
	if err := s.privileged(ctx, http.MethodPost, "sys/capabilities-self", map[string]any{"paths": paths}, &may); err != nil {
		return err
	}
	for _, n := range rights {
		if !allowed(may[n[0]], n[1]) {
			return s.mayNot(fail.Wrap(fail.Unauthorized, &refusal{http.StatusForbidden, "it may not " + n[1] + " it"}, "%s", n[0]).At(s.where()))
		}
	}
	return nil
}

// Next returns the certificate of the issuer named nextName, and makes that issuer if it doesn't exist.
func (s *Server) Next(ctx context.Context, name string) ([]byte, error) {
	mount := s.mount(name)
	i, err := s.issuer(ctx, mount, nextName)
	if fail.KindOf(err) == fail.NotFound {
		err = s.privileged(ctx, http.MethodPost, mount+"/root/generate/internal", rootSettings(s.name, mount, nextName), &i)
	}
	if err != nil {
		return nil, err
	}
	return canonical([]byte(i.Certificate)), nil
}

// Cross lets the mount make a request with the key of the issuer of, and sign it with the issuer by.
func (s *Server) Cross(ctx context.Context, name string, of, by []byte, validity time.Duration) ([]byte, error) {
	mount := s.mount(name)
	block, _ := pem.Decode(of)
	if block == nil {
		return nil, fail.New(fail.Internal, "there is no certificate of the next authority").At(mount)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the certificate of the next authority").At(mount)
	}
	next, err := s.find(ctx, mount, of)
	if err != nil {
		return nil, err
	}
	present, err := s.find(ctx, mount, by)
	if err != nil {
		return nil, err
	}
	var is kept
	if err := s.privileged(ctx, http.MethodGet, mount+"/issuer/"+next, nil, &is); err != nil {
		return nil, err
	}
	to := cert.Subject
	asked := map[string]any{
		"key_ref": is.Key, "common_name": to.CommonName, "organization": to.Organization, "ou": to.OrganizationalUnit, "country": to.Country,
		"locality": to.Locality, "province": to.Province, "street_address": to.StreetAddress, "postal_code": to.PostalCode, "serial_number": to.SerialNumber,
		"exclude_cn_from_sans": true,
	}
	var request struct {
		CSR string `json:"csr"`
	}
	if err := s.privileged(ctx, http.MethodPost, mount+"/intermediate/cross-sign", asked, &request); err != nil {
		return nil, err
	}
	var signed issuer
	err = s.privileged(ctx, http.MethodPost, mount+"/issuer/"+present+"/sign-intermediate", map[string]any{
		"csr": request.CSR, "common_name": to.CommonName, "use_csr_values": true, "ttl": fmt.Sprintf("%ds", int(validity.Seconds())), "format": "pem",
		"not_before_duration": "5m",
	}, &signed)
	return canonical([]byte(signed.Certificate)), err
}

// Retire stops an issuer from signing certificates. The issuer stays in its mount, in case a backup from before is restored. If it was the
// default issuer, the issuer that stays becomes the default. Neither keeps the name nextName.
func (s *Server) Retire(ctx context.Context, name string, goes, stays []byte) error {
	mount := s.mount(name)
	id, err := s.find(ctx, mount, stays)
	if err != nil {
		return err
	}
	former, _, err := s.lookUp(ctx, mount, goes)
	if err != nil {
		return err
	}
	var is struct {
		Default string `json:"default"`
	}
	config := mount + "/config/issuers"
	if err := s.privileged(ctx, http.MethodGet, config, nil, &is); err != nil {
		return err
	}
	if is.Default == former || is.Default == "" {
		if err := s.privileged(ctx, http.MethodPost, config, map[string]any{"default": id}, nil); err != nil {
			return err
		}
	}
	if former != "" { // otherwise it was removed by hand
		if err := s.change(ctx, mount, former, goes, true); err != nil {
			return err
		}
	}
	return s.change(ctx, mount, id, stays, false)
}

// change renames an issuer that is still named nextName, and, if goes is set, removes its right to sign certificates.
func (s *Server) change(ctx context.Context, mount, id string, certificate []byte, goes bool) error {
	path := mount + "/issuer/" + id
	var is kept
	if err := s.privileged(ctx, http.MethodGet, path, nil, &is); err != nil {
		return err
	}
	to := map[string]any{}
	if is.Name == nextName {
		to["issuer_name"] = issuerName(certificate)
	}
	if goes && slices.Contains(strings.Split(is.Usage, ","), "issuing-certificates") {
		to["usage"] = retired
	}
	if len(to) == 0 {
		return nil
	}
	return s.privileged(ctx, http.MethodPatch, path, to, nil)
}

// issuerName returns the lasting name of an issuer that was named nextName.
func issuerName(certificate []byte) string {
	sum := sha256.Sum256(canonical(certificate))
	return "naupegos-" + hex.EncodeToString(sum[:4])
}
