package kube

import (
	"context"
	"encoding/json"
	"time"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

// adminsGroup is bound to cluster-admin by kubeadm.
const adminsGroup = "kubeadm:cluster-admins"

// AdminKubeconfig renders the user's kubeconfig for the API at endpoint (host:port), with a certificate of its own.
func (p Params) AdminKubeconfig(ctx context.Context, k *pki.PKI, endpoint string) ([]byte, error) {
	ca, err := k.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return nil, err
	}
	user := "naupegos-admin"
	cert, err := k.Leaf(ctx, pki.LeafSpec{
		Name: "admin", Authority: pki.KubernetesCA, CommonName: user, Organizations: []string{adminsGroup}, Client: true,
	})
	if err != nil {
		return nil, err
	}
	return p.kubeconfig("https://"+endpoint, user, ca, pairCredentials(cert))
}

// UserKubeconfig renders a kubeconfig of a person or program for the API at endpoint (host:port), with a certificate of its own that is
// valid for so long and that nothing can revoke. What it may do depends on what is bound to the user and the groups.
func (p Params) UserKubeconfig(ctx context.Context, k *pki.PKI, endpoint, user string, groups []string, validity time.Duration) ([]byte, error) {
	ca, err := k.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return nil, err
	}
	cert, err := k.Issue(ctx, pki.LeafSpec{Authority: pki.KubernetesCA, CommonName: user, Organizations: groups, Client: true}, validity)
	if err != nil {
		return nil, err
	}
	return p.kubeconfig("https://"+endpoint, user, ca, pairCredentials(cert))
}

func pairCredentials(c pki.Pair) clientcmdv1.AuthInfo {
	return clientcmdv1.AuthInfo{ClientCertificateData: c.CertPEM, ClientKeyData: c.KeyPEM}
}

func fileCredentials(path string) clientcmdv1.AuthInfo {
	return clientcmdv1.AuthInfo{ClientCertificate: path, ClientKey: path}
}

// kubeconfig renders a kubeconfig of one user, named as kubeadm names things.
func (p Params) kubeconfig(server, user string, ca []byte, credentials clientcmdv1.AuthInfo) ([]byte, error) {
	name := user + "@" + p.ClusterName
	return marshal(clientcmdv1.Config{
		APIVersion: "v1", Kind: "Config",
		Clusters: []clientcmdv1.NamedCluster{{
			Name: p.ClusterName, Cluster: clientcmdv1.Cluster{Server: server, CertificateAuthorityData: ca},
		}},
		Contexts:       []clientcmdv1.NamedContext{{Name: name, Context: clientcmdv1.Context{Cluster: p.ClusterName, AuthInfo: user}}},
		CurrentContext: name,
		AuthInfos:      []clientcmdv1.NamedAuthInfo{{Name: user, AuthInfo: credentials}},
	})
}

// marshal renders v as YAML with sorted keys, without the empty status that typed objects bring along.
func marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render YAML")
	}
	var m map[string]any
	if err := yaml.Unmarshal(data, &m); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render YAML")
	}
	if status, ok := m["status"].(map[string]any); ok && len(status) == 0 {
		delete(m, "status")
	}
	out, err := yaml.Marshal(m)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render YAML")
	}
	return out, nil
}
