package access

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/objects"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestLoaded reads the metrics of an API server of 1.36.
func TestLoaded(t *testing.T) {
	const metrics = `# TYPE apiserver_authentication_config_controller_automatic_reloads_total counter
apiserver_authentication_config_controller_automatic_reloads_total{apiserver_id_hash="sha256:1",status="failure"} 3
apiserver_authentication_config_controller_automatic_reloads_total{apiserver_id_hash="sha256:1",status="success"} 1
# TYPE apiserver_authentication_config_controller_last_config_info gauge
apiserver_authentication_config_controller_last_config_info{apiserver_id_hash="sha256:1",hash="sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"} 1
`
	testkit.Must(t, loaded([]byte(metrics), Authentication, []byte("abc"), "https://cp-1"))
	testkit.Fails(t, loaded([]byte(metrics), Authentication, []byte("abcd"), "https://cp-1"), fail.NotReady, "https://cp-1", "3 failed attempts")
	testkit.Fails(t, loaded(nil, Authentication, []byte("abc"), "https://cp-1"), fail.NotReady, "0 failed attempts")
}

// TestMaker: the labels of a binding name its maker.
func TestMaker(t *testing.T) {
	for want, of := range map[string]metav1.ObjectMeta{
		ByDocument:   {Labels: map[string]string{objects.AddonLabel: "identity"}},
		ByNaupegos:   {Labels: map[string]string{objects.AddonLabel: "flannel"}},
		ByKubernetes: {Labels: map[string]string{"kubernetes.io/bootstrapping": "rbac-defaults"}},
		ByOthers:     {},
	} {
		got := grants(of, []rbacv1.Subject{{Kind: "Group", Name: "g"}}, rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, "identity", map[string]bool{"/view": true})
		if len(got) != 1 || got[0].By != want || got[0].Missing {
			t.Errorf("%s: %+v", want, got)
		}
	}
	gone := grants(metav1.ObjectMeta{Namespace: "shop"}, []rbacv1.Subject{{Kind: "ServiceAccount", Name: "x"}}, rbacv1.RoleRef{Kind: "Role", Name: "view"}, "identity", map[string]bool{"/view": true})
	if !gone[0].Missing || gone[0].Subject != "shop/x" || gone[0].Scope() != "shop" {
		t.Errorf("%+v", gone)
	}
}
