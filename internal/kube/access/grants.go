package access

import (
	"cmp"
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/objects"
)

// The makers of bindings.
const (
	ByDocument   = "document"   // spec.identity.bindings
	ByNaupegos   = "naupegos"   // for the cluster's own components, or an addon
	ByKubernetes = "kubernetes" // API servers create and repair these
	ByOthers     = "others"
)

// Grant gives one subject one role.
type Grant struct {
	Kind      string `json:"kind" doc:"User, Group or ServiceAccount"`
	Subject   string `json:"subject" doc:"Name of the subject; of a service account NAMESPACE/NAME"`
	Role      string `json:"role"`
	RoleKind  string `json:"roleKind" doc:"ClusterRole or Role"`
	Namespace string `json:"namespace,omitempty" doc:"Namespace in which the role applies; empty: the whole cluster"`
	Binding   string `json:"binding" doc:"Name of the ClusterRoleBinding or, in a namespace, of the RoleBinding"`
	By        string `json:"by" doc:"Who made the binding: document, naupegos, kubernetes or others"`
	Missing   bool   `json:"missing" doc:"The role does not exist, so the binding allows nothing"`
}

// Scope says where the role applies.
func (g Grant) Scope() string { return cmp.Or(g.Namespace, "*") }

// Grants lists the roles of each subject, sorted by subject. addon is the label of the bindings that the document lists.
func Grants(ctx context.Context, c *kube.Client, addon string) ([]Grant, error) {
	rbac := kube.Set(c).RbacV1()
	roles := map[string]bool{}
	clusterRoles, err := rbac.ClusterRoles().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kube.APIError(ctx, err, "list ClusterRoles").At(c.Server())
	}
	for _, r := range clusterRoles.Items {
		roles["/"+r.Name] = true
	}
	own, err := rbac.Roles(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kube.APIError(ctx, err, "list Roles").At(c.Server())
	}
	for _, r := range own.Items {
		roles[r.Namespace+"/"+r.Name] = true
	}
	wide, err := rbac.ClusterRoleBindings().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kube.APIError(ctx, err, "list ClusterRoleBindings").At(c.Server())
	}
	narrow, err := rbac.RoleBindings(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, kube.APIError(ctx, err, "list RoleBindings").At(c.Server())
	}
	var all []Grant
	for _, b := range wide.Items {
		all = append(all, grants(b.ObjectMeta, b.Subjects, b.RoleRef, addon, roles)...)
	}
	for _, b := range narrow.Items {
		all = append(all, grants(b.ObjectMeta, b.Subjects, b.RoleRef, addon, roles)...)
	}
	slices.SortStableFunc(all, func(a, b Grant) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Role, b.Role), cmp.Compare(a.Binding, b.Binding))
	})
	return all, nil
}

func grants(of metav1.ObjectMeta, subjects []rbacv1.Subject, role rbacv1.RoleRef, addon string, roles map[string]bool) (all []Grant) {
	at := ""
	if role.Kind == "Role" {
		at = of.Namespace
	}
	for _, s := range subjects {
		g := Grant{Kind: s.Kind, Subject: s.Name, Role: role.Name, RoleKind: role.Kind, Namespace: of.Namespace, Binding: of.Name, By: maker(of, addon), Missing: !roles[at+"/"+role.Name]}
		if s.Kind == rbacv1.ServiceAccountKind {
			g.Subject = cmp.Or(s.Namespace, of.Namespace) + "/" + s.Name
		}
		all = append(all, g)
	}
	return all
}

func maker(of metav1.ObjectMeta, addon string) string {
	switch {
	case of.Labels[objects.AddonLabel] == addon:
		return ByDocument
	case of.Labels[objects.AddonLabel] != "" || of.Annotations[objects.DigestAnnotation] != "":
		return ByNaupegos
	case of.Labels["kubernetes.io/bootstrapping"] != "":
		return ByKubernetes
	}
	return ByOthers
}
