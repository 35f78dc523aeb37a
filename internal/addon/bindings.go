package addon

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
)

// NameBindings identifies the bindings of a document (spec.identity.bindings) in the cluster, as an addon's name does.
const NameBindings = "identity"

// Bindings renders the bindings of a document as ClusterRoleBindings and RoleBindings; nil if it has none.
func Bindings(doc *v1alpha1.Cluster) ([]byte, error) {
	var out bytes.Buffer
	for _, b := range doc.Spec.Identity.Bindings {
		subject := subjectOf(b)
		sum := sha256.Sum256([]byte(subject.Kind + "\x00" + subject.Namespace + "\x00" + subject.Name))
		name := fmt.Sprintf("naupegos:%s:%s", b.Role, hex.EncodeToString(sum[:5]))
		role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: b.Role}
		var objects []any
		if len(b.Namespaces) == 0 {
			objects = append(objects, rbacv1.ClusterRoleBinding{
				TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name},
				Subjects: []rbacv1.Subject{subject}, RoleRef: role,
			})
		}
		for _, n := range b.Namespaces {
			objects = append(objects, rbacv1.RoleBinding{
				TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n},
				Subjects: []rbacv1.Subject{subject}, RoleRef: role,
			})
		}
		for _, o := range objects {
			text, err := yaml.Marshal(o)
			if err != nil {
				return nil, fail.Wrap(fail.Internal, err, "render the bindings of the document")
			}
			out.WriteString("---\n")
			out.Write(text)
		}
	}
	return out.Bytes(), nil
}

func subjectOf(b v1alpha1.Binding) rbacv1.Subject {
	if namespace, name, ok := strings.Cut(b.ServiceAccount, "/"); ok {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
	}
	s := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: b.User}
	if b.Group != "" {
		s.Kind, s.Name = rbacv1.GroupKind, b.Group
	}
	return s
}

// BindingNamespaces lists the namespaces of a document's bindings, sorted.
func BindingNamespaces(doc *v1alpha1.Cluster) []string {
	var all []string
	for _, b := range doc.Spec.Identity.Bindings {
		all = append(all, b.Namespaces...)
	}
	slices.SortFunc(all, cmp.Compare)
	return slices.Compact(all)
}

// NamespaceManifests renders namespaces.
func NamespaceManifests(names []string) []byte {
	var out bytes.Buffer
	for _, n := range names {
		fmt.Fprintf(&out, "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n", n)
	}
	return out.Bytes()
}
