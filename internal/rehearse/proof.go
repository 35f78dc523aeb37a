package rehearse

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
)

// Proof is the result of a rehearsal.
type Proof struct {
	Set        string           `json:"set"`
	Cluster    string           `json:"cluster"`
	Kubernetes string           `json:"kubernetes"` // release of the API server that read it
	Bundle     string           `json:"bundle"`     // the bundle with the programs of the rehearsal
	At         time.Time        `json:"at"`
	Seconds    float64          `json:"seconds"` // duration of the rehearsal
	Revision   int64            `json:"revision"`
	Keys       int              `json:"keys"`               // in etcd, below /registry/
	Objects    int              `json:"objects"`            // shown by the API
	Secrets    int              `json:"secrets"`            // number of Secrets, each decrypted
	Tokens     int              `json:"tokens"`             // number of service accounts' tokens that Secrets contain, each accepted
	Digest     string           `json:"digest"`             // of all objects
	Resources  map[string]Tally `json:"resources"`          // by name, "deployments.apps"
	Unserved   map[string]int   `json:"unserved,omitempty"` // keys that the API does not serve, by prefix
}

// Tally sums up the objects of a resource.
type Tally struct {
	Count  int    `json:"count"`
	Digest string `json:"digest"`
}

// census compares the API's objects with etcd's keys.
type census struct {
	inEtcd  map[string]bool // keys in the snapshot
	seen    map[string]bool // keys among them that the API showed
	digests map[string][]string
	tokens  []string
	account [2]string // namespace and name of a service account
	rootCAs map[string]bool
	tidy    *tidying
}

func newCensus(keys []string, t *tidying) *census {
	c := &census{inEtcd: map[string]bool{}, seen: map[string]bool{}, digests: map[string][]string{}, rootCAs: map[string]bool{}, tidy: t}
	for _, k := range keys {
		c.inEtcd[k] = true
	}
	return c
}

// visit records one object. It skips objects that the sandbox created.
func (c *census) visit(o kube.Counted) error {
	if !c.inEtcd[o.Key] {
		return nil
	}
	c.seen[o.Key] = true
	c.digests[o.Resource] = append(c.digests[o.Resource], o.Key+" "+hex.EncodeToString(o.Digest[:]))
	switch o.Resource {
	case "secrets":
		if kind, _, _ := unstructured.NestedString(o.Object.Object, "type"); kind == "kubernetes.io/service-account-token" {
			token, _, _ := unstructured.NestedString(o.Object.Object, "data", "token")
			c.tokens = append(c.tokens, token)
		}
	case "serviceaccounts":
		if slices.Contains([]string{"kube-system", "default"}, o.Object.GetNamespace()) { // never deleted; a terminating namespace allows no token
			c.account = [2]string{o.Object.GetNamespace(), o.Object.GetName()}
		}
	case "configmaps":
		if o.Object.GetName() == "kube-root-ca.crt" {
			ca, _, _ := unstructured.NestedString(o.Object.Object, "data", "ca.crt")
			c.rootCAs[ca] = true
		}
	}
	if c.tidy != nil {
		c.tidy.visit(o)
	}
	return nil
}

// missing lists the keys that the API did not show although it serves their resources, and counts those whose resources it does not serve, by prefix.
// now holds the keys that etcd still has.
func (c *census) missing(kept []kube.Kept, now map[string]bool) (lost []string, unserved map[string]int) {
	unserved = map[string]int{}
	for _, key := range slices.Sorted(maps.Keys(c.inEtcd)) {
		if c.seen[key] {
			continue
		}
		served := slices.ContainsFunc(kept, func(k kube.Kept) bool { return strings.HasPrefix(key, k.Prefix+"/") })
		switch {
		case served && now[key]: // otherwise it has expired in the meantime, as events do
			lost = append(lost, key)
		case !served && !internal(key):
			unserved[prefixOf(key)]++
		}
	}
	return lost, unserved
}

// internal reports whether a key is internal to API servers, which never show it.
func internal(key string) bool {
	return slices.ContainsFunc([]string{"/registry/ranges/", "/registry/masterleases/", "/registry/peerserverleases/", "/registry/health"},
		func(p string) bool { return strings.HasPrefix(key, p) })
}

// prefixOf returns a key without its last part.
func prefixOf(key string) string { return key[:strings.LastIndexByte(key, '/')+1] }

// tally combines the digests.
func (c *census) tally(p *Proof) {
	p.Resources = map[string]Tally{}
	all := sha256.New()
	for _, r := range slices.Sorted(maps.Keys(c.digests)) {
		list := slices.Sorted(slices.Values(c.digests[r]))
		sum := sha256.Sum256([]byte(strings.Join(list, "\n")))
		p.Resources[r] = Tally{len(list), hex.EncodeToString(sum[:])}
		p.Objects += len(list)
		fmt.Fprintf(all, "%s %x\n", r, sum)
	}
	p.Secrets, p.Digest = p.Resources["secrets"].Count, hex.EncodeToString(all.Sum(nil))
}

// examine lists all objects through the sandbox's API server, compares them with etcd's keys and signs in (see signIn).
func (s *sandbox) examine(ctx context.Context, c *census, p *Proof, status func(string, ...any)) error {
	root, err := s.client(ctx, layout.Params.SuperAdminKubeconfig)
	if err != nil {
		return err
	}
	defer root.Close()
	status("starting kube-apiserver %s", s.params.Release.Version)
	if err := s.start("kube-apiserver", s.is.APIServer); err != nil {
		return err
	}
	if err := s.await(ctx, "kube-apiserver", func(ctx context.Context) error { return s.serving(ctx, root) }); err != nil {
		return err
	}
	status("reading every object through the API")
	kept, err := root.Census(ctx, c.visit)
	if err != nil {
		return unread(err)
	}
	client, err := s.etcd(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	keys, _, err := client.Keys(ctx, registry)
	if err != nil {
		return err
	}
	now := map[string]bool{}
	for _, k := range keys {
		now[k] = true
	}
	lost, unserved := c.missing(kept, now)
	if len(lost) > 0 {
		return fail.New(fail.Refused, "the API does not show %d of %d keys that etcd has, %s among them", len(lost), p.Keys, lost[0])
	}
	p.Unserved = unserved
	c.tally(p)
	return s.signIn(ctx, root, c, p, status)
}

// unread returns the error of a set that can't be read to its end.
func unread(err error) error {
	var at *fail.Error
	if errors.As(err, &at) && strings.Contains(err.Error(), layout.NoProxy) {
		return fail.New(fail.Refused, "%s: some of them are stored in a version that only a webhook of the cluster can convert, and a rehearsal calls none", at.What).
			Do("in the cluster, write each of them once more, unchanged; then make another backup")
	}
	return fail.Wrap(fail.Refused, err, "not everything of the set can be read")
}

// serving returns nil once the API server is ready, fail.NotReady or fail.Unreachable until then. It returns fail.Refused if the API server can't
// decrypt Secrets, because it never becomes ready then.
func (s *sandbox) serving(ctx context.Context, client *kube.Client) error {
	err := client.Ready(ctx)
	if err == nil {
		return nil
	}
	if s.hasSaid("kube-apiserver", "failed to decrypt data") {
		return fail.Wrap(fail.Refused, err, "Secrets of the set can't be decrypted by its own keys").Do("take another set: this one lacks the key that its Secrets were written by")
	}
	if kind := fail.KindOf(err); kind == fail.NotReady || kind == fail.Unreachable {
		return err
	}
	return fail.Wrap(fail.NotReady, err, "the API server is starting") // it may deny access until it has loaded its authorization rules
}

// signIn proves that the set's authorities and keys match its objects: the ConfigMaps that tell pods the authority (kube-root-ca.crt) name the set's,
// and the API accepts an administrator's kubeconfig by it, the service accounts' tokens among the Secrets, and a new token by the set's key.
func (s *sandbox) signIn(ctx context.Context, root *kube.Client, c *census, p *Proof, status func(string, ...any)) error {
	status("signing in")
	if len(c.rootCAs) > 0 && !c.names(s.known) {
		return fail.New(fail.Refused, "the set's authority is not the one that its objects name: snapshot and keys are of different clusters").Do("use another set")
	}
	admin, err := s.client(ctx, layout.Params.AdminKubeconfig)
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err = admin.WhoAmI(ctx); err == nil {
		_, err = admin.Nodes(ctx)
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "an administrator's kubeconfig by the set's authority is not let in")
	}
	for _, token := range c.tokens {
		decoded, err := decode(token)
		if err == nil {
			_, err = root.TokenUser(ctx, decoded)
		}
		if err != nil {
			return fail.Wrap(fail.Refused, err, "a service account's token among the set's Secrets is not accepted: the set's key has not signed it")
		}
	}
	p.Tokens = len(c.tokens)
	if c.account[1] == "" {
		return nil
	}
	token, err := root.ServiceAccountToken(ctx, c.account[0], c.account[1])
	if err == nil {
		_, err = root.TokenUser(ctx, token)
	}
	if err != nil {
		return fail.Wrap(fail.Refused, err, "a token by the set's key is not accepted")
	}
	return nil
}

// names reports whether objects name one of these authorities (PEM) as the cluster's.
func (c *census) names(authorities []byte) bool {
	for block, rest := pem.Decode(authorities); block != nil; block, rest = pem.Decode(rest) {
		one := string(pem.EncodeToMemory(block))
		for named := range c.rootCAs {
			if strings.Contains(named, strings.TrimSpace(one)) {
				return true
			}
		}
	}
	return false
}

// Checks describes the successful checks.
func (p *Proof) Checks() []string {
	return []string{
		fmt.Sprintf("kube-apiserver %s of bundle %.12s shows all %d objects of %d resources, digest %s", p.Kubernetes, p.Bundle, p.Objects, len(p.Resources), p.Digest),
		fmt.Sprintf("the %d keys of etcd are the counted ones, at revision %d", p.Keys, p.Revision),
		fmt.Sprintf("all %d Secrets are decrypted", p.Secrets),
		fmt.Sprintf("an administrator's kubeconfig and %d service-account tokens are accepted", p.Tokens+1),
		fmt.Sprintf("it took %.1f s", p.Seconds),
	}
}

// Largest lists the n resources with the most objects.
func (p *Proof) Largest(n int) []string {
	names := slices.SortedFunc(maps.Keys(p.Resources), func(a, b string) int {
		return cmp.Or(cmp.Compare(p.Resources[b].Count, p.Resources[a].Count), strings.Compare(a, b))
	})
	return names[:min(n, len(names))]
}
