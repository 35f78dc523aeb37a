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
	// nextName is what the issuer is called that follows on the one in use. Somebody else may have made it.
	nextName = "naupegos-next"
	// RotationToken is the variable of the environment with the token by which authorities are rotated.
	RotationToken = "VAULT_ROTATION_TOKEN"
	// retired are the uses of an issuer that signs no certificates any more.
	retired = "read-only,crl-signing,ocsp-signing"
)

// kept is what a mount says of an issuer to whoever may rotate.
type kept struct {
	Name  string `json:"issuer_name"`
	Key   string `json:"key_id"`
	Usage string `json:"usage"`
}

// privileged makes a call that the policy of every day does not allow: by the token for rotations where there is one.
func (s *Server) privileged(ctx context.Context, method, path string, in, out any) error {
	token := strings.TrimSpace(os.Getenv(RotationToken))
	if token == "" || s.with.Closed || s.with.Credential != nil { // a variable of the host is not for what a document names
		return s.mayNot(s.signedIn(ctx, method, path, in, out))
	}
	a, err := s.call(ctx, method, path, token, in)
	if err != nil {
		return s.mayNot(err)
	}
	return decode(a.Data, out)
}

// mayNot says what is needed where a call was refused for want of rights.
func (s *Server) mayNot(err error) error {
	if statusOf(err) != http.StatusForbidden {
		return err
	}
	return fail.Wrap(fail.Unauthorized, err, "what signs in to Vault may not rotate authorities").
		Do("set $%s to a token that may: naupegos certs issuer %s --rotation prints the commands that make one", RotationToken, s.name)
}

// needed lists what is called at a mount, whose issuer in use has this ID, during a rotation, with the right that it takes.
func needed(mount, id string) [][2]string {
	return [][2]string{
		{mount + "/root/generate/internal", "update"}, {mount + "/intermediate/cross-sign", "update"}, {mount + "/issuer/" + id, "read"}, {mount + "/issuer/" + id, "patch"},
		{mount + "/issuer/" + id + "/sign-intermediate", "update"}, {mount + "/config/issuers", "read"}, {mount + "/config/issuers", "update"},
	}
}

// MayRotate is nil where authorities, by their names with the certificates that are in use, can be rotated: nothing is begun before.
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

// Next returns the certificate of the issuer that is called nextName, and has the mount make it where there is none.
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

// Cross has the mount ask for a certificate of the key of one issuer, and another one sign it.
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

// Retire has an issuer sign no certificates any more; it stays in its mount, for whoever restores a backup from before. The one that stays is the
// default one where the other was, and neither is called nextName any more.
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
	if former != "" { // else somebody has removed it
		if err := s.change(ctx, mount, former, goes, true); err != nil {
			return err
		}
	}
	return s.change(ctx, mount, id, stays, false)
}

// change has an issuer not be called nextName any more, and sign nothing where it goes.
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

// issuerName is what an issuer is called that has followed on another one.
func issuerName(certificate []byte) string {
	sum := sha256.Sum256(canonical(certificate))
	return "naupegos-" + hex.EncodeToString(sum[:4])
}
