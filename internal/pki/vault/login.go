package vault

import (
	"cmp"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// podToken is the path of a pod's service-account token, the only file that the method kubernetes reads.
const podToken = "/var/run/secrets/kubernetes.io/serviceaccount/token" //nolint:gosec // a path

// credential is a Vault token.
type credential struct {
	token string
	until time.Time // when to sign in again; zero: never
	by    string    // the value of the document's credential that signed in; empty: the document names none
}

// token returns a valid token, and signs in if there is none.
func (s *Server) token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	named, err := s.named(ctx) // read it each time, so that a removed or replaced credential is not used any longer
	if err != nil {
		return "", err
	}
	if c := s.signed; c.token != "" && c.by == named && (c.until.IsZero() || s.now().Before(c.until)) {
		return c.token, nil
	}
	c, err := s.signIn(ctx, named)
	if err == nil {
		c.by = named
		s.signed = c
	}
	return c.token, err
}

// named returns the value of the credential that the document names, or "" if it names none.
func (s *Server) named(ctx context.Context) (string, error) {
	auth := s.spec.Auth
	switch {
	case s.with.Credential != nil:
		value, err := s.with.Credential(ctx)
		if err == nil && strings.TrimSpace(string(value)) == "" {
			err = fail.New(fail.Unauthorized, "credential %s is empty", auth.Credential)
		}
		return strings.TrimSpace(string(value)), err
	case auth.Credential != "" || s.with.Closed && auth.Method != v1alpha1.VaultKubernetes:
		return "", fail.New(fail.Refused, "no credential signs in to Vault").Do("name one: spec.pki.issuer.vault.auth.credential")
	}
	return "", nil
}

// forget drops a rejected token, and reports whether signing in again can give another one.
func (s *Server) forget(token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.signed.token == token {
		s.signed = credential{}
	}
	return s.spec.Auth.Method != v1alpha1.VaultToken
}

func (s *Server) signIn(ctx context.Context, named string) (credential, error) {
	auth := s.spec.Auth
	var in map[string]string
	switch auth.Method {
	case v1alpha1.VaultAppRole:
		role, secret, err := givenAppRole(auth, named)
		if err != nil {
			return credential{}, err
		}
		in = map[string]string{"role_id": role, "secret_id": secret}
	case v1alpha1.VaultKubernetes:
		jwt, err := readCredential(podToken, false)
		if err != nil {
			return credential{}, err
		}
		in = map[string]string{"role": auth.Role, "jwt": jwt}
	default:
		token, err := givenToken(auth, named)
		return credential{token: token}, err
	}
	path := "auth/" + cmp.Or(auth.Mount, strings.ToLower(auth.Method)) + "/login"
	a, err := s.call(ctx, http.MethodPost, path, "", in)
	if status := statusOf(err); status == http.StatusBadRequest || status == http.StatusForbidden || status == http.StatusNotFound {
		return credential{}, fail.Wrap(fail.Unauthorized, err, "sign in by %s", auth.Method).
			Do("its role or secret has expired or is another one, or the auth method is mounted elsewhere (spec.pki.issuer.vault.auth.mount)")
	}
	if err != nil {
		return credential{}, err
	}
	if a.Auth == nil || a.Auth.Token == "" {
		return credential{}, fail.New(fail.Internal, "sign in by %s: there is no token in the answer", auth.Method).At(s.where())
	}
	c := credential{token: a.Auth.Token}
	if a.Auth.Duration > 0 { // renew early
		c.until = s.now().Add(time.Duration(a.Auth.Duration) * time.Second * 2 / 3)
	}
	return c, nil
}

// givenToken finds a token: the named credential, else the file auth.credentialsFile, else $VAULT_TOKEN, else the vault command's ~/.vault-token.
func givenToken(auth v1alpha1.VaultAuth, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	if auth.CredentialsFile != "" {
		return readCredential(auth.CredentialsFile, true)
	}
	if token := strings.TrimSpace(os.Getenv("VAULT_TOKEN")); token != "" {
		return token, nil
	}
	home, err := os.UserHomeDir()
	if err == nil {
		if token, err := readCredential(filepath.Join(home, ".vault-token"), true); err == nil {
			return token, nil
		}
	}
	return "", fail.New(fail.Unauthorized, "there is no token for Vault").
		Do("set $VAULT_TOKEN, sign in by vault login, or name a file, spec.pki.issuer.vault.auth.credentialsFile")
}

// givenAppRole finds the role_id and secret_id of an AppRole: in the file auth.credentialsFile, else in the named credential, else in the
// environment.
func givenAppRole(auth v1alpha1.VaultAuth, named string) (role, secret string, err error) {
	text := named
	if auth.CredentialsFile != "" {
		if text, err = readCredential(auth.CredentialsFile, true); err != nil {
			return "", "", err
		}
	}
	if text == "" {
		role, secret = os.Getenv("VAULT_ROLE_ID"), os.Getenv("VAULT_SECRET_ID")
	} else {
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			switch strings.TrimSpace(key) {
			case "role_id":
				role = strings.TrimSpace(value)
			case "secret_id":
				secret = strings.TrimSpace(value)
			}
		}
	}
	if role == "" || secret == "" {
		return "", "", fail.New(fail.Unauthorized, "there is no AppRole for Vault").
			Do("set $VAULT_ROLE_ID and $VAULT_SECRET_ID, or name a file or a credential with lines role_id=… and secret_id=…, spec.pki.issuer.vault.auth.credentialsFile")
	}
	return role, secret, nil
}

// readCredential reads a file with a credential; if private is set, it refuses a file that group or others can access.
func readCredential(path string, private bool) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fail.Wrap(fail.Unauthorized, err, "read the credential for Vault").Do("put it there")
	}
	if mode := info.Mode().Perm(); private && mode&0o077 != 0 {
		return "", fail.New(fail.Unauthorized, "others can read it (mode %04o)", mode).At(path).Do("chmod 600 %s", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", fail.Wrap(fail.Unauthorized, err, "read the credential for Vault")
	}
	text := strings.TrimSpace(string(data))
	if text == "" {
		return "", fail.New(fail.Unauthorized, "it is empty").At(path).Do("put the credential for Vault there")
	}
	return text, nil
}
