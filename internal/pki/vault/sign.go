package vault

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

var _ pki.Issuer = (*Server)(nil)

// issuer is an issuer in a mount: the ID and certificate of an authority.
type issuer struct {
	ID          string `json:"issuer_id"`
	Certificate string `json:"certificate"`
}

// Authority returns the certificate of the default issuer of an authority's mount.
func (s *Server) Authority(ctx context.Context, name string) ([]byte, error) {
	i, err := s.issuer(ctx, s.mount(name), "default")
	if err != nil {
		return nil, err
	}
	return canonical([]byte(i.Certificate)), nil
}

// issuer reads an issuer of a mount, by ID, name or "default".
func (s *Server) issuer(ctx context.Context, mount, reference string) (i issuer, err error) {
	err = s.read(ctx, mount+"/issuer/"+reference+"/json", &i)
	switch {
	case saysOf(err, "unsupported path", "no handler for route"):
		err = fail.Wrap(fail.NotFound, err, "there is no PKI secrets engine at %s", mount).
			Do("make it: naupegos certs issuer %s prints the commands; or is spec.pki.issuer.vault.mount another?", s.name)
	case statusOf(err) == http.StatusInternalServerError && saysOf(err, "no default issuer", "unable to find"), err == nil && i.Certificate == "":
		err = fail.New(fail.NotFound, "the PKI secrets engine at %s has no authority yet", mount).At(s.where()).Do("%s", rootCommand(s.name, mount))
	}
	return i, err
}

// find returns the ID of the issuer with this certificate: the mount may have other issuers by now, and another default.
func (s *Server) find(ctx context.Context, mount string, certificate []byte) (string, error) {
	id, others, err := s.lookUp(ctx, mount, certificate)
	if err == nil && id == "" {
		err = fail.New(fail.Refused, "none of the %d issuers of %s has the certificate of the cluster's authority", others, mount).At(s.where()).
			Do("the cluster uses the authority that it was built with: name the mount that has it, or import it there")
	}
	return id, err
}

// lookUp is like find, but returns an empty ID and the number of issuers if none has the certificate.
func (s *Server) lookUp(ctx context.Context, mount string, certificate []byte) (id string, others int, _ error) {
	certificate = canonical(certificate)
	key := mount + "\n" + string(certificate)
	s.mu.Lock()
	id = s.issuers[key]
	s.mu.Unlock()
	if id != "" {
		return id, 0, nil
	}
	references := []string{"default"}
	var list struct {
		Keys []string `json:"keys"`
	}
	for n := 0; n < len(references); n++ {
		i, err := s.issuer(ctx, mount, references[n])
		if err != nil {
			return "", 0, err
		}
		if bytes.Equal(canonical([]byte(i.Certificate)), certificate) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.issuers[key] = i.ID
			return i.ID, 0, nil
		}
		if n == 0 {
			if err := s.read(ctx, mount+"/issuers?list=true", &list); err != nil {
				return "", 0, err
			}
			references = append(references, list.Keys...)
		}
	}
	return "", len(list.Keys), nil
}

// Sign signs a request with the issuer of the certificate authority, by the role for spec.
func (s *Server) Sign(ctx context.Context, authority []byte, spec pki.LeafSpec, request []byte, validity time.Duration) ([]byte, error) {
	mount, by := s.mount(spec.Authority), roleOf(spec)
	id, err := s.find(ctx, mount, authority)
	if err != nil {
		return nil, err
	}
	var out struct {
		Certificate string `json:"certificate"`
	}
	err = s.write(ctx, mount+"/issuer/"+id+"/sign/"+by.name, map[string]any{
		"csr": string(request), "common_name": spec.CommonName, "ttl": fmt.Sprintf("%ds", int(validity.Seconds())), "format": "pem",
		"exclude_cn_from_sans": true,
	}, &out)
	if err != nil {
		return nil, s.unsigned(err, mount, id, by)
	}
	return []byte(out.Certificate), nil
}

// unsigned adds a remedy to the error of Sign.
func (s *Server) unsigned(err error, mount, id string, by role) error {
	switch {
	case saysOf(err, "unknown role"):
		return fail.Wrap(fail.NotFound, err, "%s has no role %s", mount, by.name).Do("%s", by.command(mount))
	case statusOf(err) == http.StatusForbidden:
		return fail.Wrap(fail.Unauthorized, err, "the token may not sign by role %s of %s, or has expired", by.name, mount)
	case saysOf(err, "requested usage"):
		return fail.Wrap(fail.Refused, err, "the cluster's issuer of %s may not sign certificates", mount).
			Do("it was replaced by a later one: vault patch %s/issuer/%s usage=%s,issuing-certificates restores it", mount, id, retired)
	case statusOf(err) == http.StatusBadRequest:
		return fail.Wrap(fail.Refused, err, "role %s of %s does not sign it", by.name, mount).Do("naupegos certs issuer %s --check says what the role lacks", s.name)
	}
	return err
}

// canonical returns the first block of PEM data in this program's form, without headers.
func canonical(data []byte) []byte {
	block, _ := pem.Decode(data)
	if block == nil {
		return nil
	}
	return pem.EncodeToMemory(&pem.Block{Type: block.Type, Bytes: block.Bytes})
}
