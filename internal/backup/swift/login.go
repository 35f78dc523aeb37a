package swift

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Names of an application credential's fields, in the environment and in Horizon's files.
const (
	idName     = "OS_APPLICATION_CREDENTIAL_ID"
	secretName = "OS_APPLICATION_CREDENTIAL_SECRET"
)

// fresh is a token's minimum remaining lifetime when a call begins.
const fresh = 5 * time.Minute

// Credentials returns a container's application credential, found on this host, as a file for another machine; fail.Unauthorized if there is none.
func Credentials(ctx context.Context, spec Spec, from Source) ([]byte, error) {
	c, err := credentialOf(ctx, spec, from)
	if err != nil {
		return nil, err
	}
	return []byte(idName + "=" + c.ID + "\n" + secretName + "=" + c.Secret + "\n"), nil
}

// credential is an application credential of Keystone.
type credential struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// credentialOf takes the credential that the document names, else its file, else the environment.
func credentialOf(ctx context.Context, spec Spec, from Source) (c credential, err error) {
	switch {
	case from.Credential != nil:
		text, err := from.Credential(ctx)
		if err != nil {
			return c, err
		}
		if c = parse(string(text)); c.ID == "" || c.Secret == "" {
			return c, fail.New(fail.Unauthorized, "credential %s holds no application credential", spec.Credential).Do("its value needs lines %s=… and %s=…", idName, secretName)
		}
		return c, nil
	case spec.Credential != "" || from.Closed:
		return c, fail.New(fail.Refused, "no credential admits to the container %s", spec.Container).Do("name one: spec.backup.to.swift.credential")
	}
	c = credential{os.Getenv(idName), os.Getenv(secretName)}
	if spec.CredentialsFile != "" {
		text, err := os.ReadFile(spec.CredentialsFile)
		if err != nil {
			return c, fail.Wrap(fail.Unauthorized, err, "read the credential of the container %s", spec.Container).Do("put it there; openstack application credential create makes one")
		}
		c = parse(string(text))
	}
	if c.ID == "" || c.Secret == "" {
		return c, fail.New(fail.Unauthorized, "there is no application credential for the container %s", spec.Container).At(spec.CredentialsFile).
			Do("lines %s=… and %s=… are needed in spec.backup.to.swift.credentialsFile, or both in the environment", idName, secretName)
	}
	return c, nil
}

// parse finds a credential in the lines of a file for a shell.
func parse(text string) (c credential) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		value = strings.Trim(strings.TrimSpace(value), `"'`)
		switch strings.TrimSpace(key) {
		case idName:
			c.ID = value
		case secretName:
			c.Secret = value
		}
	}
	return c
}

// session is a token with the object store's address.
type session struct {
	by    credential // used to sign in
	token string
	until time.Time
	url   string // of the account
}

// signedIn returns a session that stays valid for longer than fresh; it signs in if necessary.
func (c *Container) signedIn(ctx context.Context) (session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	cred, err := credentialOf(ctx, c.spec, c.from) // read each time, so that a removed or replaced credential is no longer used
	if err != nil {
		return session{}, c.wrap(err, "sign in at %s", c.spec.AuthURL)
	}
	if c.session.token != "" && c.session.by == cred && time.Until(c.session.until) > fresh {
		return c.session, nil
	}
	err = c.tried(ctx, func() error {
		s, err := c.signIn(ctx, cred)
		if err == nil {
			c.session = s
		}
		return err
	})
	return c.session, c.wrap(err, "sign in at %s", c.spec.AuthURL)
}

// forget drops a rejected token.
func (c *Container) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session.token == token {
		c.session = session{}
	}
}

// signIn asks the identity service for a token, and its catalogue for the object store.
func (c *Container) signIn(ctx context.Context, cred credential) (session, error) {
	identity := map[string]any{"methods": []string{"application_credential"}, "application_credential": cred}
	body, err := json.Marshal(map[string]any{"auth": map[string]any{"identity": identity}})
	if err != nil {
		return session{}, fail.Wrap(fail.Internal, err, "write a request")
	}
	base := strings.TrimRight(c.spec.AuthURL, "/")
	if !strings.HasSuffix(base, "/v3") {
		base += "/v3"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/auth/tokens", bytes.NewReader(body))
	if err != nil {
		return session{}, fail.New(fail.Invalid, "the address of the identity service can't be read") // cause withheld: it may quote a secret
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := c.send(r)
	var no *refusal
	switch {
	case errors.As(err, &no) && no.said == "" && no.status < http.StatusInternalServerError && no.status != http.StatusUnauthorized && no.status != http.StatusTooManyRequests:
		return session{}, fail.New(fail.Refused, "there is no identity service").At(c.spec.AuthURL).Do("give the address of Keystone, spec.backup.to.swift.authURL")
	case statusOf(err) == http.StatusNotFound: // unknown credential
		return session{}, &refusal{http.StatusUnauthorized, no.said}
	}
	if err != nil {
		return session{}, err
	}
	defer res.Body.Close()
	var answer struct {
		Token struct {
			Until   time.Time `json:"expires_at"`
			Catalog []service `json:"catalog"`
		} `json:"token"`
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return session{}, fail.Wrap(fail.Refused, err, "read the answer of the identity service").At(c.spec.AuthURL).Do("is spec.backup.to.swift.authURL the address of Keystone?")
	}
	s := session{by: cred, token: res.Header.Get("X-Subject-Token"), until: answer.Token.Until}
	s.url, err = c.storeIn(answer.Token.Catalog)
	return s, err
}

// service is a catalogue entry.
type service struct {
	Type      string `json:"type"`
	Endpoints []struct {
		Interface string `json:"interface"`
		Region    string `json:"region"`
		URL       string `json:"url"`
	} `json:"endpoints"`
}

// storeIn returns the public address of a catalogue's only object store, or of the one in the document's region if it names one.
func (c *Container) storeIn(catalog []service) (string, error) {
	urls := map[string]string{} // by region
	for _, s := range catalog {
		for _, e := range s.Endpoints {
			if s.Type == "object-store" && e.Interface == "public" && (c.spec.Region == "" || e.Region == c.spec.Region) {
				urls[e.Region] = strings.TrimRight(e.URL, "/")
			}
		}
	}
	var regions []string
	for r := range urls {
		regions = append(regions, r)
	}
	slices.Sort(regions)
	switch len(urls) {
	case 1:
		return urls[regions[0]], nil
	case 0:
		in := ""
		if c.spec.Region != "" {
			in = " in region " + c.spec.Region
		}
		return "", fail.New(fail.Refused, "the cloud has no object store%s", in).At(c.spec.AuthURL).Do("name another place for backups, or another region, spec.backup.to.swift.region")
	}
	return "", fail.New(fail.Invalid, "the cloud has object stores in several regions: %s", strings.Join(regions, ", ")).At(c.spec.AuthURL).Do("name one, spec.backup.to.swift.region")
}

// refusal is a response other than success.
type refusal struct {
	status int
	said   string
}

// statusOf returns a refusal's HTTP status; 0 for other errors.
func statusOf(err error) int {
	var r *refusal
	if errors.As(err, &r) {
		return r.status
	}
	return 0
}

func (r *refusal) Error() string {
	return cmp.Or(r.said, fmt.Sprintf("%d %s", r.status, http.StatusText(r.status)))
}
