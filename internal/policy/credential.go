// Package policy decides which resources of a server's host and network documents may use: credentials, which the server's administrator defines and
// binds to hosts and clusters, and the files, hosts and ports that a ServerPolicy allows.
//
// The package opens no files or connections. It uses the store's secrets and knows nothing of its other parts, of running clusters or of HTTP.
package policy

import (
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/place"
)

// Secrets is the part of a store's secrets that credentials need.
type Secrets interface {
	Get(ctx context.Context, name string) ([]byte, error)
	Put(ctx context.Context, name string, value []byte) error
	PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error)
	Delete(ctx context.Context, name string) error
	Names(ctx context.Context) ([]string, error)
}

// Credential is a credential without its value.
type Credential struct {
	Name     string    `json:"name"`
	For      []string  `json:"for"`             // hosts that may receive the value
	Clusters []string  `json:"clusters"`        // names or patterns of the clusters that may use it
	Paths    []string  `json:"paths,omitempty"` // at the service, with all below them; {cluster} is the cluster's name. None: the whole service
	Changed  time.Time `json:"changed"`
}

// sealed is a credential as the store keeps it, encrypted.
type sealed struct {
	Credential
	Value []byte `json:"value"`
}

// prefix is the prefix of credentials' names in the server's secrets.
const prefix = "credential/"

// maxValue is the size limit of a value, far above that of a key or a large clouds.yaml.
const maxValue = 256 << 10

// Credentials are the credentials of a store.
type Credentials struct{ in Secrets }

// NewCredentials returns the credentials among the server's secrets of a store.
func NewCredentials(in Secrets) Credentials { return Credentials{in} }

// Add stores a credential. An existing credential of the same name is a conflict unless replace is set.
func (c Credentials) Add(ctx context.Context, cred Credential, value []byte, replace bool) error {
	if err := cred.check(); err != nil {
		return err
	}
	switch {
	case len(strings.TrimSpace(string(value))) == 0:
		return fail.New(fail.Invalid, "the value of credential %s is empty", cred.Name).Do("pass a file with the value as --file; - reads standard input")
	case len(value) > maxValue:
		return fail.New(fail.Invalid, "the value of credential %s is larger than %d KiB", cred.Name, maxValue>>10).Do("check that --file names the right file")
	}
	cred.Changed = time.Now().UTC().Truncate(time.Second)
	raw, err := json.Marshal(sealed{cred, value})
	if err != nil {
		return fail.Wrap(fail.Internal, err, "encode credential %s", cred.Name)
	}
	if replace {
		if err := c.keepsLimit(ctx, cred); err != nil {
			return err
		}
		return c.in.Put(ctx, prefix+cred.Name, raw)
	}
	kept, err := c.in.PutIfAbsent(ctx, prefix+cred.Name, raw)
	if err == nil && string(kept) != string(raw) {
		err = fail.New(fail.Conflict, "credential %s already exists", cred.Name).Do("--replace replaces its value, hosts, clusters and paths")
	}
	return err
}

// keepsLimit refuses a replacement without paths for a credential that is limited to paths: a new value alone must not open the whole service.
func (c Credentials) keepsLimit(ctx context.Context, cred Credential) error {
	was, err := c.get(ctx, cred.Name)
	switch kind := fail.KindOf(err); {
	case err == nil && len(was.Paths) > 0 && len(cred.Paths) == 0:
		return fail.New(fail.Refused, "credential %s is limited to paths, and the new one would be for the whole service", cred.Name).
			Do("pass its paths again: --path '%s'; to lift the limit, remove the credential first: naupegos server credential remove %s",
				strings.Join(was.Paths, "' --path '"), cred.Name)
	case err == nil, kind == fail.NotFound, kind == fail.Internal: // the last: it is damaged
		return nil
	}
	return err
}

func (c *Credential) check() error {
	switch {
	case !v1alpha1.IsCredentialName(c.Name):
		return fail.New(fail.Invalid, "%q is not a valid name of a credential", c.Name).Do("use up to 63 lower-case letters, digits, dots and dashes")
	case len(c.For) == 0:
		return fail.New(fail.Invalid, "credential %s is bound to no host", c.Name).Do("--for HOST:PORT binds it to a host")
	case len(c.Clusters) == 0:
		return fail.New(fail.Invalid, "credential %s is bound to no cluster", c.Name).Do(`--clusters binds it to clusters: prod-a, or "prod-*"`)
	}
	for _, text := range c.For {
		if _, err := place.ParsePlace(text); err != nil {
			return fail.Wrap(fail.Invalid, err, "--for %s", text)
		}
	}
	for _, text := range c.Paths {
		if bare := strings.ReplaceAll(text, nameInPath, "x"); bare == "." || bare == "" || path.Clean("/"+bare) != "/"+bare || strings.ContainsAny(bare, "{}*?\\ \t\n") {
			return fail.New(fail.Invalid, "--path %s is not a path at a service", text).Do("write pki/{cluster}, or backups/team-a: a path begins with the namespace, the bucket or the container, and covers all below it")
		}
	}
	for _, text := range c.Clusters {
		if text == "" || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-*?[]^") != "" {
			return fail.New(fail.Invalid, "--clusters %s is not a name or a pattern", text).Do(`write prod-a, or "prod-*"`)
		}
	}
	return nil
}

// Remove deletes a credential: fail.NotFound if it does not exist.
func (c Credentials) Remove(ctx context.Context, name string) error {
	if _, err := c.in.Get(ctx, prefix+name); err != nil {
		if fail.KindOf(err) == fail.NotFound {
			return fail.New(fail.NotFound, "there is no credential %s", name).Do("naupegos server credential list shows them")
		}
		return err
	}
	return c.in.Delete(ctx, prefix+name)
}

// List returns all credentials by name, without their values.
func (c Credentials) List(ctx context.Context) ([]Credential, error) {
	names, err := c.in.Names(ctx)
	if err != nil {
		return nil, err
	}
	all := []Credential{}
	for _, n := range names {
		name, ok := strings.CutPrefix(n, prefix)
		if !ok {
			continue
		}
		s, err := c.get(ctx, name)
		if fail.KindOf(err) == fail.NotFound {
			continue // removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s.Credential)
	}
	return all, nil
}

func (c Credentials) get(ctx context.Context, name string) (*sealed, error) {
	raw, err := c.in.Get(ctx, prefix+name)
	if err != nil {
		return nil, err
	}
	s := &sealed{}
	if json.Unmarshal(raw, s) != nil || s.Name != name { // the cause might quote the value
		return nil, fail.New(fail.Internal, "credential %s is damaged", name).Do("naupegos server credential add %s --replace", name)
	}
	return s, nil
}

// usable returns a credential, or fail.Unauthorized if it does not exist or is not bound to the cluster. The error is the same in both cases, so that it
// does not reveal other clusters' credentials.
func (c Credentials) usable(ctx context.Context, cluster, name string) (*sealed, error) {
	s, err := c.get(ctx, name)
	switch {
	case err != nil && fail.KindOf(err) != fail.NotFound:
		return nil, err
	case err != nil || !v1alpha1.MatchesAny(s.Clusters, cluster):
		return nil, fail.New(fail.Unauthorized, "cluster %s has no credential %s", cluster, name).
			Do("the server's administrator defines it: naupegos server credential add %s; then run the same command again", name)
	}
	return s, nil
}

// nameInPath stands for the cluster's name in a path.
const nameInPath = "{cluster}"

// Within returns fail.Unauthorized if the cluster has no such credential, and fail.Refused if it is limited to paths of its service and path is not among
// them. An empty path means a service without paths.
func (c Credentials) Within(ctx context.Context, cluster, name, path string) error {
	s, err := c.usable(ctx, cluster, name)
	if err != nil {
		return err
	}
	within := slices.ContainsFunc(s.Paths, func(p string) bool {
		p = strings.ReplaceAll(p, nameInPath, cluster)
		return path == p || strings.HasPrefix(path, p+"/")
	})
	switch {
	case within || len(s.Paths) == 0:
		return nil
	case path == "":
		return fail.New(fail.Refused, "credential %s is bound to paths of a Vault, a bucket or a container, and can't be used here", name).At(cluster).Do("use another credential")
	}
	return fail.New(fail.Refused, "credential %s is not bound to path %s", name, path).At(cluster).Do("use a path that the credential is bound to, or another credential")
}

// Find returns the value of a credential for an address: fail.Unauthorized if the cluster has no such credential, fail.Refused if it is bound to other
// hosts.
func (c Credentials) Find(ctx context.Context, cluster, name string, to place.Address) ([]byte, error) {
	value, allowed, err := c.Open(ctx, cluster, name)
	if err == nil {
		err = allowed(to)
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}

// Open returns the value of a credential that itself contains the address of its service, such as a clouds.yaml. The caller must pass that address to
// allowed before it sends the value.
func (c Credentials) Open(ctx context.Context, cluster, name string) (value []byte, allowed func(place.Address) error, err error) {
	s, err := c.usable(ctx, cluster, name)
	if err != nil {
		return nil, nil, err
	}
	return s.Value, func(to place.Address) error {
		if s.covers(to) {
			return nil
		}
		return fail.New(fail.Refused, "credential %s is not bound to %s", name, to).At(cluster).Do("use a host that the credential is bound to, or another credential")
	}, nil
}

func (c *Credential) covers(to place.Address) bool {
	return slices.ContainsFunc(c.For, func(text string) bool {
		p, err := place.ParsePlace(text)
		return err == nil && p.Covers(to)
	})
}
