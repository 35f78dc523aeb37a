package rehearse

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/etcd"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/layout"
	"github.com/naupegos/naupegos/internal/kube/objects"
)

// Anew describes a different cluster that starts from a set, with its own authorities and keys.
type Anew struct {
	Encryption []string          // providers by which its API servers read Secrets, as in layout.Params; they write by the first
	Keys       map[string][]byte // the keys of Encryption, by names that no key of the set has
	Prefixes   []string          // of etcd's keys outside Kubernetes' to delete: messages between the former cluster's machines
}

// told lists objects that name trusted authorities or the API's address. The programs that create them recreate missing ones.
var told = map[string][]string{
	"configmaps": {
		"kube-system/extension-apiserver-authentication", // API servers add their authority to its content, and would keep the former one
		"kube-system/kubeadm-config", "kube-system/kube-proxy", "kube-public/cluster-info",
	},
	"secrets":         {"kube-system/kubeadm-certs"},
	"daemonsets.apps": {"kube-system/kube-proxy"}, // its pods would keep calling the former cluster's API until its configuration changes
}

const (
	rootCAs         = "kube-root-ca.crt"              // in every namespace
	bootstrapTokens = "bootstrap.kubernetes.io/token" //nolint:gosec // a type
	signRequests    = "certificatesigningrequests.certificates.k8s.io"
)

// former reports whether an object concerns only the set's cluster. The new cluster creates its own by itself or by apply.
func former(o kube.Counted) bool {
	name := o.Object.GetNamespace() + "/" + o.Object.GetName()
	kind, _, _ := unstructured.NestedString(o.Object.Object, "type")
	switch {
	case o.Resource == signRequests, o.Resource == "nodes", slices.Contains(told[o.Resource], name):
		return true
	case o.Resource == "configmaps" && o.Object.GetName() == rootCAs:
		return true
	case o.Resource == "secrets" && kind == bootstrapTokens:
		return true
	}
	// Remove an addon's workloads and their configuration, because apply creates them from the document. Keep the rest of the addon (kinds, classes,
	// permissions), and its inventory.
	return o.Object.GetLabels()[objects.AddonLabel] != "" && !strings.HasPrefix(o.Object.GetName(), objects.InventoryPrefix) &&
		slices.Contains([]string{"configmaps", "secrets", "daemonsets.apps", "deployments.apps"}, o.Resource)
}

// learn adds the other cluster's keys to the sandbox's API server: it then writes with the first of the other cluster's providers and can still
// read with the set's. The API server must be started afterwards.
func (s *sandbox) learn(ctx context.Context, a *Anew) error {
	for name, key := range a.Keys {
		if err := s.pki.KeepEncryptionKey(ctx, name, key); err != nil {
			return err
		}
	}
	both := a.Encryption[:1:1]
	was := s.params.Encryption
	if len(was) == 0 {
		was = []string{layout.Plaintext}
	}
	for _, p := range was {
		if !slices.Contains(both, p) {
			both = append(both, p)
		}
	}
	s.params.Encryption = both
	return nil
}

// disown turns etcd's data into another cluster's: through an API server with both clusters' keys it removes what binds objects to the former cluster
// (see kube.Client.Disown) and stores every Secret by the other's key. Then it deletes the keys below a.Prefixes, and those of Kubernetes that are not
// in stay: the API server's own writes. stay holds the set's keys that remain.
func (s *sandbox) disown(ctx context.Context, client *etcd.Client, a *Anew, stay map[string]bool, status func(string, ...any)) error {
	root, err := s.client(ctx, layout.Params.SuperAdminKubeconfig)
	if err != nil {
		return err
	}
	defer root.Close()
	status("starting kube-apiserver with the keys of both clusters")
	if err := s.start("kube-apiserver", s.is.APIServer); err != nil {
		return err
	}
	if err := s.await(ctx, "kube-apiserver", func(ctx context.Context) error { return s.serving(ctx, root) }); err != nil {
		return err
	}
	d, err := root.Disown(ctx)
	if err != nil {
		return err
	}
	n, err := root.RewriteSecrets(ctx, nil)
	if err != nil {
		return err
	}
	s.stop("kube-apiserver")
	status("%d Secrets are stored by the new keys; %d tokens of service accounts and %d load balancers are taken out; %d volumes are kept whatever happens",
		n, d.Tokens, d.Services, d.Volumes)
	now, _, err := client.Keys(ctx, registry)
	if err != nil {
		return err
	}
	gone := slices.DeleteFunc(now, func(key string) bool { return stay[key] })
	for _, prefix := range a.Prefixes {
		more, _, err := client.Keys(ctx, prefix)
		if err != nil {
			return err
		}
		gone = append(gone, more...)
	}
	if err := client.Delete(ctx, gone); err != nil {
		return err
	}
	return storedBy(ctx, client, a.Encryption[0])
}

// storedBy returns nil if every Secret in etcd is stored by the given provider.
func storedBy(ctx context.Context, client *etcd.Client, provider string) error {
	var left []string
	_, err := client.Values(ctx, layout.SecretsPrefix, 0, func(key, value []byte) error {
		if !bytes.HasPrefix(value, []byte(layout.StoredPrefix(provider))) || provider == layout.Plaintext && bytes.HasPrefix(value, []byte(layout.EncryptedPrefix)) {
			left = append(left, string(key))
		}
		return nil
	})
	if err == nil && len(left) > 0 {
		err = fail.New(fail.Internal, "%d Secrets are still encrypted with the former cluster's key, including %s", len(left), left[0])
	}
	return err
}
