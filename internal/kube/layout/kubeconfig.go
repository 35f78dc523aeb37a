package layout

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	goyaml "sigs.k8s.io/yaml/goyaml.v2"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/pki"
)

// adminsGroup is bound to cluster-admin by kubeadm.
const adminsGroup = "kubeadm:cluster-admins"

// AdminKubeconfig renders the user's kubeconfig for the API at endpoint (host:port), with its own certificate.
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

// UserKubeconfig renders the kubeconfig of a person or program for the API at endpoint (host:port), with its own certificate, which is valid for the
// given time and can't be revoked. Its permissions depend on the bindings of the user and the groups.
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

// SuperAdminKubeconfig renders a kubeconfig whose user has all permissions even before any RBAC rule exists. It is for the first moments of a cluster
// (AdminsBinding) and is never written to a file.
func (p Params) SuperAdminKubeconfig(ctx context.Context, k *pki.PKI, endpoint string) ([]byte, error) {
	ca, err := k.CABundle(ctx, pki.KubernetesCA)
	if err != nil {
		return nil, err
	}
	const user = "naupegos-super-admin"
	cert, err := k.Leaf(ctx, pki.LeafSpec{
		Name: "super-admin", Authority: pki.KubernetesCA, CommonName: user, Organizations: []string{"system:masters"}, Client: true,
	})
	if err != nil {
		return nil, err
	}
	return p.kubeconfig("https://"+endpoint, user, ca, pairCredentials(cert))
}

// AdminsBinding is the binding that makes the users of admin kubeconfigs administrators, as kubeadm creates it (EnsureAdminClusterRoleBinding in
// cmd/kubeadm/app/phases/kubeconfig).
const AdminsBinding = `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: kubeadm:cluster-admins
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: cluster-admin
subjects:
  - apiGroup: rbac.authorization.k8s.io
    kind: Group
    name: kubeadm:cluster-admins
`

// credentials authenticate the user of a kubeconfig: by a certificate within the file or in a separate file.
type credentials struct {
	CertificateData []byte `json:"client-certificate-data,omitempty"`
	KeyData         []byte `json:"client-key-data,omitempty"`
	Certificate     string `json:"client-certificate,omitempty"`
	Key             string `json:"client-key,omitempty"`
}

func pairCredentials(c pki.Pair) credentials {
	return credentials{CertificateData: c.CertPEM, KeyData: c.KeyPEM}
}

func fileCredentials(path string) credentials { return credentials{Certificate: path, Key: path} }

// kubeconfig renders a kubeconfig of one user, with kubeadm's names.
func (p Params) kubeconfig(server, user string, ca []byte, c credentials) ([]byte, error) {
	name := user + "@" + p.ClusterName
	type object = map[string]any
	return marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": p.ClusterName, "cluster": object{"server": server, "certificate-authority-data": ca}}},
		"contexts": []object{{"name": name, "context": object{"cluster": p.ClusterName, "user": user}}},
		"users":    []object{{"name": user, "user": c}},
	})
}

// marshal renders v as YAML with sorted keys, without the empty status of typed objects.
func marshal(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render YAML")
	}
	var m map[string]any
	numbers := json.NewDecoder(bytes.NewReader(data))
	numbers.UseNumber()
	if err := numbers.Decode(&m); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render YAML")
	}
	if status, ok := m["status"].(map[string]any); ok && len(status) == 0 {
		delete(m, "status")
	}
	out, err := goyaml.Marshal(plainNumbers(m)) // as yaml.Marshal, which would write and read JSON once more; each machine's configuration has several of these
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "render YAML")
	}
	return out, nil
}

// plainNumbers replaces the numbers of JSON in v by integers where they are some.
func plainNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, item := range v {
			v[key] = plainNumbers(item)
		}
	case []any:
		for i, item := range v {
			v[i] = plainNumbers(item)
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		n, _ := v.Float64() // a number of JSON is one
		return n
	}
	return v
}
