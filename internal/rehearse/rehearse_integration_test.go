//go:build integration

package rehearse

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/backup"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/pki"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/testkit"
)

const document = `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata:
  name: demo
spec:
  provider:
    local: {}
  kubernetes:
    version: %s
  controlPlane:
    replicas: 1
    schedulable: true
`

// objectsOfSet are the objects of the set's cluster: one of each kind with a special storage format.
const objectsOfSet = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sails.test.naupegos.dev}
spec:
  group: test.naupegos.dev
  scope: Namespaced
  names: {plural: sails, kind: Sail}
  versions:
    - {name: v1, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
    - {name: v1beta1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
---
apiVersion: v1
kind: Secret
metadata: {name: old, namespace: default}
stringData: {word: xyzzy}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: robot, namespace: default}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: door, namespace: default}
spec: {defaultBackend: {service: {name: front, port: {number: 80}}}}
---
apiVersion: v1
kind: Service
metadata: {name: front, namespace: default}
spec: {selector: {app: front}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: front, namespace: default}
---
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: leader, namespace: default}
spec: {holderIdentity: somebody}
---
apiVersion: v1
kind: Node
metadata: {name: demo-cp-1, annotations: {naupegos.dev/owned-labels: a}}
---
apiVersion: v1
kind: Node
metadata: {name: demo-gone-1, annotations: {naupegos.dev/owned-labels: a}}
---
apiVersion: v1
kind: Pod
metadata: {name: stays, namespace: default}
spec: {nodeName: demo-cp-1, serviceAccountName: robot, containers: [{name: a, image: a}]}
---
apiVersion: v1
kind: Pod
metadata: {name: goes, namespace: default}
spec: {nodeName: demo-gone-1, serviceAccountName: robot, containers: [{name: a, image: a}]}
`

// newKeys makes a new cluster's keys.
func newKeys(t *testing.T) (in *memory.Overlay, k *pki.PKI) {
	t.Helper()
	in = memory.NewOverlay(nil)
	k = pki.Open(in, pki.Options{})
	testkit.Must(t, k.Ensure(t.Context()))
	return in, k
}

// secretsIn returns all secrets.
func secretsIn(t *testing.T, in *memory.Overlay) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, name := range testkit.Value(in.Names(t.Context()))(t) {
		all[name] = testkit.Value(in.Get(t.Context(), name))(t)
	}
	return all
}

// made makes a set of an imaginary cluster with n additional Secrets, and with more objects, which are applied one after another.
func made(t *testing.T, version string, n int, more ...string) Set {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	doc, err := validation.Parse("test", fmt.Appendf(nil, document, version))
	testkit.Must(t, err)
	in, k := newKeys(t)
	set := Set{ID: "a-set", Document: doc, Encryption: []string{pki.FirstEncryptionKey, layout.Plaintext}, Version: version, Secrets: secretsIn(t, in)}
	b := bundletest.Of(t, version)
	s, err := newSandbox(ctx, t.TempDir(), b, params(set, b), k)
	testkit.Must(t, err)
	defer s.close()
	testkit.Must(t, s.restore(ctx, ""))
	testkit.Must(t, s.start("kube-apiserver", s.is.APIServer))
	client, err := s.client(ctx, layout.Params.SuperAdminKubeconfig)
	testkit.Must(t, err)
	defer client.Close()
	testkit.Must(t, s.await(ctx, "kube-apiserver", client.Ready))
	ca := testkit.Value(k.CABundle(ctx, pki.KubernetesCA))(t)
	all := objectsOfSet + "---\n" + layout.AdminsBinding + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: kube-root-ca.crt, namespace: default}\ndata:\n  ca.crt: |\n" +
		"    " + strings.ReplaceAll(strings.TrimSpace(string(ca)), "\n", "\n    ") + "\n"
	for i := range n {
		all += fmt.Sprintf("---\napiVersion: v1\nkind: Secret\nmetadata: {name: s%d, namespace: default}\nstringData: {word: w%d}\n", i, i)
	}
	_, err = client.Apply(ctx, []byte(all), kube.ApplyOptions{})
	testkit.Must(t, err)
	for range 2 { // the kind must be registered first
		if _, err = client.Apply(ctx, []byte("apiVersion: test.naupegos.dev/v1\nkind: Sail\nmetadata: {name: jib, namespace: default}\nspec: {area: 12}\n"), kube.ApplyOptions{}); err == nil {
			break
		}
	}
	testkit.Must(t, err)
	for _, o := range more {
		_, err = client.Apply(ctx, []byte(o), kube.ApplyOptions{})
		testkit.Must(t, err)
	}
	set.Snapshot = filepath.Join(t.TempDir(), "snapshot.db")
	f, err := os.Create(set.Snapshot)
	testkit.Must(t, err)
	e, err := s.etcd(ctx)
	testkit.Must(t, err)
	defer e.Close()
	var tally backup.Tally
	set.Etcd.Revision, err = e.Values(ctx, layout.RegistryPrefix, 0, func(key, value []byte) error {
		tally.Add(key, value)
		return nil
	})
	testkit.Must(t, err)
	tally.Into(&set.Etcd)
	_, err = e.Snapshot(ctx, f)
	testkit.Must(t, err)
	testkit.Must(t, f.Close())
	return set
}

// rehearsed rehearses a set.
func rehearsed(t *testing.T, set Set, o Options) (*Proof, error) {
	t.Helper()
	o.Bundle, o.Dir, o.Timeout = bundletest.Of(t, set.Version), t.TempDir(), 3*time.Minute
	o.Status = t.Logf
	return Run(t.Context(), set, o)
}

// TestRehearsal: a complete set is proven and yields a snapshot to start from; damaged sets are refused.
func TestRehearsal(t *testing.T) {
	set := made(t, release.Default, 50)
	t.Run("whole", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "tidy.db")
		p, err := rehearsed(t, set, Options{Tidy: &Tidy{Machines: []string{"demo-cp-1"}, Rebuilt: true}, Out: out})
		testkit.Must(t, err)
		t.Logf("FIGURE rehearsal of %d keys: %.1f s", p.Keys, p.Seconds)
		for resource, want := range map[string]int{"secrets": 51, "sails.test.naupegos.dev": 1, "ingresses.networking.k8s.io": 1, "nodes": 2, "pods": 2, "endpoints": 1} {
			if got := p.Resources[resource].Count; got != want {
				t.Errorf("%d %s, want %d", got, resource, want)
			}
		}
		if p.Secrets != 51 || len(p.Unserved) > 0 || p.Digest == "" || p.Objects < 100 {
			t.Errorf("%+v", p)
		}
		again := set
		again.Snapshot, again.Etcd = out, backup.Etcd{}
		q, err := rehearsed(t, again, Options{})
		testkit.Must(t, err)
		for r := range maps.Keys(p.Resources) {
			less := map[string]int{"nodes": 1, "pods": 1}[r]
			if slices.Contains([]string{"leases.coordination.k8s.io"}, r) {
				less = p.Resources[r].Count
			}
			if q.Resources[r].Count != p.Resources[r].Count-less {
				t.Errorf("tidied, there are %d %s of %d", q.Resources[r].Count, r, p.Resources[r].Count)
			}
			if less == 0 && q.Resources[r].Digest != p.Resources[r].Digest {
				t.Errorf("tidied, %s are others", r)
			}
		}
	})
	t.Run("another cluster", func(t *testing.T) { startsAnew(t, set) })
	whole, err := os.ReadFile(set.Snapshot)
	testkit.Must(t, err)
	damaged := func(set Set, data []byte) Set {
		set.Snapshot = filepath.Join(t.TempDir(), "damaged.db")
		testkit.Must(t, os.WriteFile(set.Snapshot, data, 0o600))
		return set
	}
	flipped := bytes.Clone(whole)
	flipped[testkit.Rand(t).IntN(len(flipped))] ^= 1
	stranger, _ := newKeys(t)
	const key, ca, lost = "encryption-at-rest", "authority/kubernetes-ca", "service-account"
	miscounted := set
	miscounted.Etcd.Objects = slices.Clone(set.Etcd.Objects)
	miscounted.Etcd.Objects[0].Count++
	keyless, foreign, poor := set, set, set
	for s, name := range map[*Set]string{&keyless: key, &foreign: ca, &poor: lost} {
		s.Secrets = maps.Clone(set.Secrets)
		if name == lost {
			delete(s.Secrets, name)
			continue
		}
		s.Secrets[name] = testkit.Value(stranger.Get(t.Context(), name))(t)
	}
	for name, bad := range map[string]struct {
		set  Set
		says string
	}{
		"truncated":                     {damaged(set, whole[:len(whole)/2]), "damaged"},
		"a flipped bit":                 {damaged(set, flipped), "damaged"},
		"another count":                 {miscounted, "differs from its manifest"},
		"another encryption key":        {keyless, "can't be decrypted by its own keys"},
		"the authority of another":      {foreign, "of different clusters"},
		"a set without one of its keys": {poor, "lacks keys"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rehearsed(t, bad.set, Options{})
			testkit.Fails(t, err, fail.Refused, bad.says)
			t.Logf("%v", err)
		})
	}
}

// startsAnew: the new cluster's keys open its snapshot and the former cluster's don't. The snapshot has all Secrets, Services and custom resources,
// but no nodes, and does not name the former cluster's authorities.
func startsAnew(t *testing.T, set Set) {
	ctx := t.Context()
	in, k := newKeys(t)
	key := testkit.Value(k.EncryptionKey(ctx, "key2"))(t)
	out := filepath.Join(t.TempDir(), "anew.db")
	p, err := rehearsed(t, set, Options{Out: out, Tidy: &Tidy{
		Machines: []string{"copy-cp-1"}, Rebuilt: true, Anew: &Anew{Encryption: []string{"key2", layout.Plaintext}, Keys: map[string][]byte{"key2": key}},
	}})
	testkit.Must(t, err)
	other := set
	other.Snapshot, other.Etcd, other.Encryption, other.Secrets = out, backup.Etcd{}, []string{"key2", layout.Plaintext}, secretsIn(t, in)
	q, err := rehearsed(t, other, Options{})
	testkit.Must(t, err)
	if q.Secrets != p.Secrets || q.Resources["sails.test.naupegos.dev"] != p.Resources["sails.test.naupegos.dev"] || q.Resources["services"] != p.Resources["services"] {
		t.Errorf("it has %+v of %+v", q, p)
	}
	if n := q.Resources["nodes"].Count; n != 0 {
		t.Errorf("it has %d nodes", n)
	}
	former := set
	former.Snapshot, former.Etcd = out, backup.Etcd{}
	_, err = rehearsed(t, former, Options{})
	testkit.Fails(t, err, fail.Refused, "can't be decrypted")
}

// callers are objects with which a cluster's tenant makes an API server connect to HOST:PORT: an aggregated API, and a webhook that converts custom
// resources.
const callers = `apiVersion: v1
kind: Service
metadata: {name: lure, namespace: default}
spec: {type: ExternalName, externalName: HOST, ports: [{port: PORT}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.lure.naupegos.dev}
spec:
  group: lure.naupegos.dev
  version: v1
  groupPriorityMinimum: 1000
  versionPriority: 15
  insecureSkipTLSVerify: true
  service: {name: lure, namespace: default, port: PORT}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sails.test.naupegos.dev}
spec:
  group: test.naupegos.dev
  scope: Namespaced
  names: {plural: sails, kind: Sail}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://HOST:PORT/convert"}}
  versions:
    - {name: v1, served: true, storage: STORAGE, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
    - {name: v1beta1, served: true, storage: BETA, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// TestRehearsalCallsNobody: a rehearsal's API server connects to no address that the set's objects name. Objects that only a webhook can convert are
// reported.
func TestRehearsalCallsNobody(t *testing.T) {
	for name, storage := range map[string]string{"whole": "false", "objects that need the webhook": "true"} {
		t.Run(name, func(t *testing.T) {
			lure, err := net.Listen("tcp", "127.0.0.1:0")
			testkit.Must(t, err)
			var calls atomic.Int32
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					c, err := lure.Accept()
					if err != nil {
						return
					}
					calls.Add(1)
					_ = c.Close()
				}
			}()
			host, port, err := net.SplitHostPort(lure.Addr().String())
			testkit.Must(t, err)
			beta := map[string]string{"true": "false", "false": "true"}[storage]
			set := made(t, release.Default, 0, strings.NewReplacer("HOST", host, "PORT", port, "STORAGE", storage, "BETA", beta).Replace(callers))
			p, err := rehearsed(t, set, Options{})
			if storage == "true" {
				testkit.Fails(t, err, fail.Refused, "sails.test.naupegos.dev", "webhook")
				if strings.Contains(err.Error(), layout.NoProxy) {
					t.Errorf("the error names the sandbox's socket: %v", err)
				}
			} else {
				testkit.Must(t, err)
				if n := p.Resources["sails.test.naupegos.dev"].Count; n != 1 {
					t.Errorf("%d custom resources were read", n)
				}
			}
			testkit.Must(t, lure.Close())
			<-ended
			if n := calls.Load(); n > 0 {
				t.Errorf("the API server connected %d times to an address that the set's objects name", n)
			}
		})
	}
}
