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

// Finding is what a look at one thing says.
type Finding struct {
	Name    string // what was looked at
	Detail  string // what is to be known of it
	Warning bool   // it serves, and Detail says what may not last
	Err     error  // it does not serve; nil: it does
}

const (
	skew      = time.Minute         // by which Vault's clock may differ from ours
	shortLife = 30 * 24 * time.Hour // of certificates: shorter ones are remarked on
	tooShort  = 24 * time.Hour      // none so short can be kept up with
	ending    = 7 * 24 * time.Hour  // of a token
	caEnding  = 365 * 24 * time.Hour
)

// Check looks at everything that a cluster needs of its Vault; have are the certificates of authorities that the cluster has already, by their names.
// Where Vault can't be used at all, nothing more is looked at.
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

// Ready is nil where a cluster has all that it needs of its Vault, else what it lacks.
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

// checkServer asks whether Vault can be reached, is unsealed and has the same time as we have.
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
		f.Err = fail.New(fail.Refused, "its clock differs from this host's by %s: what it signs would not be valid yet, or no longer", off.Abs()).At(s.where()).
			Do("set the clock that is wrong: timedatectl set-ntp true")
	}
	f.Detail = fmt.Sprintf("%s, version %s", s.spec.Address, health.Version)
	return f
}

// checkToken signs in and asks how long that lasts.
func (s *Server) checkToken(ctx context.Context) Finding {
	f := Finding{Name: "vault sign-in"}
	var self struct {
		Name     string   `json:"display_name"`
		Policies []string `json:"policies"`
		TTL      int      `json:"ttl"` // seconds; 0: for good
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

// checkAuthority looks at a mount, its issuer and its roles.
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

// checkRoles looks at the roles of a mount whose authority is valid since then, and returns the longest life of what they sign.
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

// mountLimit is how long at most something lives that a mount gives out.
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

// allowed reports whether a right is among those that Vault tells of a path.
func allowed(capabilities any, right string) bool {
	list, _ := capabilities.([]any)
	return slices.Contains(list, any(right)) || slices.Contains(list, any("root"))
}
