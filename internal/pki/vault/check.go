package vault

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

// Finding is the result of one check.
type Finding struct {
	Name    string // the thing that was checked
	Detail  string // facts about it
	Warning bool   // it is usable, but Detail names a weakness
	Err     error  // why it is unusable; nil if it is usable
}

const (
	skew      = time.Minute         // tolerated difference between Vault's clock and ours
	shortLife = 30 * 24 * time.Hour // certificates with a shorter life cause a warning
	tooShort  = 24 * time.Hour      // certificates with a shorter life can't be renewed in time
	ending    = 7 * 24 * time.Hour  // a token with a shorter remaining life causes a warning
	caEnding  = 365 * 24 * time.Hour
)

// Check checks everything that a cluster needs from its Vault; have holds the certificates of the cluster's existing authorities, by name.
// It stops early if Vault or its sign-in is unusable.
func (s *Server) Check(ctx context.Context, have map[string][]byte) []Finding {
	first := s.checkServer(ctx)
	if first.Err != nil {
		return []Finding{first}
	}
	all := []Finding{first, s.checkToken(ctx)}
	if all[1].Err != nil {
		return all
	}
	for _, authority := range pki.Authorities() {
		all = append(all, s.checkAuthority(ctx, authority, have[authority]))
	}
	return all
}

// Ready returns nil if a cluster has everything that it needs from its Vault, else an error that names what it lacks.
func (s *Server) Ready(ctx context.Context, have map[string][]byte) error {
	var bad []string
	var first error
	for _, f := range s.Check(ctx, have) {
		if f.Err == nil {
			continue
		}
		if first == nil {
			first = f.Err
		}
		bad = append(bad, f.Err.Error())
	}
	if len(bad) < 2 {
		return first
	}
	return fail.New(fail.KindOf(first), "Vault can't sign for the cluster:\n%s", strings.Join(bad, "\n"))
}

// checkServer checks that Vault is reachable, initialized and unsealed, and that its clock agrees with ours.
func (s *Server) checkServer(ctx context.Context) Finding {
	f := Finding{Name: "vault"}
	var health struct {
		Initialized bool   `json:"initialized"`
		Sealed      bool   `json:"sealed"`
		Time        int64  `json:"server_time_utc"`
		Version     string `json:"version"`
	}
	a, err := s.call(ctx, http.MethodGet, "sys/health?standbyok=true&perfstandbyok=true&sealedcode=200&uninitcode=200", "", nil)
	if err == nil {
		err = decode(a.Data, &health)
	}
	if f.Err = err; err != nil {
		return f
	}
	off := time.Unix(health.Time, 0).Sub(s.now()).Round(time.Second)
	switch {
	case !health.Initialized:
		f.Err = fail.New(fail.NotReady, "it is not initialized").At(s.where()).Do("vault operator init")
	case health.Sealed:
		f.Err = fail.New(fail.NotReady, "it is sealed").At(s.where()).Do("vault operator unseal, with as many of its keys as it asks for")
	case off.Abs() > skew:
		f.Err = fail.New(fail.Refused, "its clock differs from this host's by %s: its certificates would not be valid yet, or no longer", off.Abs()).At(s.where()).
			Do("set the clock that is wrong: timedatectl set-ntp true")
	}
	f.Detail = fmt.Sprintf("%s, version %s", s.spec.Address, health.Version)
	return f
}

// checkToken signs in, and checks the token's policies and remaining life.
func (s *Server) checkToken(ctx context.Context) Finding {
	f := Finding{Name: "vault sign-in"}
	var self struct {
		Name     string   `json:"display_name"`
		Policies []string `json:"policies"`
		TTL      int      `json:"ttl"` // seconds; 0: no limit
		Period   int      `json:"period"`
	}
	if f.Err = s.read(ctx, "auth/token/lookup-self", &self); f.Err != nil {
		return f
	}
	f.Detail = fmt.Sprintf("by %s as %s, with the policies %s", s.spec.Auth.Method, self.Name, strings.Join(self.Policies, ", "))
	ttl := time.Duration(self.TTL) * time.Second
	switch {
	case slices.Contains(self.Policies, "root"):
		f.Warning, f.Detail = true, f.Detail+": it may do everything; naupegos certs issuer "+s.name+" --policy prints a policy that is enough"
	case s.spec.Auth.Method == "token" && ttl > 0 && ttl < ending:
		f.Warning, f.Detail = true, f.Detail+fmt.Sprintf("; the token ends in %s: vault token renew it, or sign in by an AppRole", ttl.Round(time.Minute))
	}
	return f
}

// checkAuthority checks a mount, its issuer and its roles.
func (s *Server) checkAuthority(ctx context.Context, authority string, have []byte) Finding {
	mount := s.mount(authority)
	f := Finding{Name: "vault " + mount}
	if have == nil {
		if have, f.Err = s.Authority(ctx, authority); f.Err != nil {
			return f
		}
	}
	id, err := s.find(ctx, mount, have)
	if f.Err = err; err != nil {
		return f
	}
	block, _ := pem.Decode(have)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		f.Err = fail.Wrap(fail.Refused, err, "read the authority's certificate").At(mount)
		return f
	}
	left := cert.NotAfter.Sub(s.now())
	if !cert.IsCA || left < tooShort {
		f.Err = fail.New(fail.Refused, "its issuer is not an authority, or expires on %s", cert.NotAfter.Format(time.DateOnly)).At(mount).Do("%s", rootCommand(s.name, mount))
		return f
	}
	f.Detail = fmt.Sprintf("issuer %s, until %s", cert.Subject, cert.NotAfter.Format(time.DateOnly))
	if left < caEnding {
		f.Warning = true
	}
	life, err := s.checkRoles(ctx, authority, id, cert.NotBefore)
	if f.Err = err; err == nil && life < shortLife {
		f.Warning, f.Detail = true, f.Detail+fmt.Sprintf("; certificates live %s at most: naupegos renew must run well within a third of that", life)
	}
	return f
}

// checkRoles checks the roles of a mount, and that their backdated certificates do not begin before since, when the authority's validity
// begins. It returns the longest life that all roles allow their certificates.
func (s *Server) checkRoles(ctx context.Context, authority, id string, since time.Time) (life time.Duration, _ error) {
	mount := s.mount(authority)
	var paths, bad []string
	for _, r := range roles(authority) {
		paths = append(paths, mount+"/issuer/"+id+"/sign/"+r.name)
	}
	may := map[string]any{}
	if err := s.write(ctx, "sys/capabilities-self", map[string]any{"paths": paths}, &may); err != nil {
		return 0, err
	}
	limit, err := s.mountLimit(ctx, mount)
	if err != nil {
		return 0, err
	}
	life = limit
	for i, r := range roles(authority) {
		var is state
		err := s.read(ctx, mount+"/roles/"+r.name, &is)
		if statusOf(err) == http.StatusNotFound {
			bad = append(bad, "it has no role "+r.name+": "+r.command(mount))
			continue
		}
		if err != nil {
			return 0, err
		}
		if lacks := r.lacks(is); len(lacks) > 0 {
			bad = append(bad, fmt.Sprintf("its role %s can't sign what it is for (%s): %s", r.name, strings.Join(lacks, "; "), r.command(mount)))
		}
		if !allowed(may[paths[i]], "update") {
			bad = append(bad, "the token may not write "+paths[i]+": naupegos certs issuer "+s.name+" --policy prints the policy")
		}
		if from := since.Add(time.Duration(is.Before) * time.Second); s.now().Before(from) {
			return 0, fail.New(fail.NotReady, "what its role %s signs would begin before its authority does", r.name).At(mount).
				Do("try again after %s, or write the role with a shorter not_before_duration", from.UTC().Format(time.TimeOnly+" MST"))
		}
		if longest := time.Duration(is.MaxTTL) * time.Second; longest > 0 {
			life = min(life, longest)
		}
	}
	if life < tooShort && len(bad) == 0 {
		bad = append(bad, fmt.Sprintf("certificates live %s at most: vault secrets tune -max-lease-ttl=87600h %s, and the roles' max_ttl", life, mount))
	}
	if len(bad) > 0 {
		kind := fail.Refused
		if strings.HasPrefix(bad[0], "the token may not") {
			kind = fail.Unauthorized
		}
		return life, fail.New(kind, "%s", strings.Join(bad, "\n")).At(mount)
	}
	return life, nil
}

// mountLimit returns a mount's max_lease_ttl. It fails with fail.Refused if the mount is not a PKI secrets engine.
func (s *Server) mountLimit(ctx context.Context, mount string) (time.Duration, error) {
	var m struct {
		Type   string `json:"type"`
		Config struct {
			Max int `json:"max_lease_ttl"` // seconds
		} `json:"config"`
	}
	if err := s.read(ctx, "sys/internal/ui/mounts/"+mount, &m); err != nil {
		return 0, err
	}
	if m.Type != "pki" {
		return 0, fail.New(fail.Refused, "it is a secrets engine of type %s, not pki", m.Type).At(mount).Do("name another mount, spec.pki.issuer.vault.mount")
	}
	return time.Duration(m.Config.Max) * time.Second, nil
}

// allowed reports whether Vault's list of capabilities for a path includes a right, or root.
func allowed(capabilities any, right string) bool {
	list, _ := capabilities.([]any)
	return slices.Contains(list, any(right)) || slices.Contains(list, any("root"))
}
