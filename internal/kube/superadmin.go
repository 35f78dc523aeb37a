package kube

import (
	"context"

	"github.com/naupegos/naupegos/internal/pki"
)

// SuperAdminKubeconfig renders a kubeconfig whose user may do everything even before any RBAC rule exists. It is for the
// first moments of a cluster (AdminsBinding) and is never written anywhere.
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

// AdminsBinding is the binding that makes the holders of admin kubeconfigs administrators, as kubeadm itself makes it
// (EnsureAdminClusterRoleBinding in cmd/kubeadm/app/phases/kubeconfig).
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
