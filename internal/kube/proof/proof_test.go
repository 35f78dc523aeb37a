package proof

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/testkit"
)

// client returns a client of an API that gives fixed answers by path.
func client(t *testing.T, answers map[string]string) *kube.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(a, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		fmt.Fprint(w, a)
	}))
	t.Cleanup(server.Close)
	conf := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: %q}}]\ncontexts: [{name: c, context: {cluster: c}}]\n", server.URL)
	c := testkit.Value(kube.NewClient([]byte(conf), kube.ClientOptions{}))(t)
	t.Cleanup(c.Close)
	return c
}

// soon returns a context that ends after the first attempts.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

const twoPods = `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"kube-system"},"spec":{"nodeName":"n1"}},{"metadata":{"name":"b","namespace":"kube-system"},"spec":{"nodeName":"n2"}}]}`

func TestPodMetrics(t *testing.T) {
	const pods, proxy = "/api/v1/namespaces/kube-system/pods", "/api/v1/namespaces/kube-system/pods/%s:9100/proxy/metrics"
	answers := map[string]string{pods: twoPods, fmt.Sprintf(proxy, "a"): "# HELP x\nnode_uname_info 1\n", fmt.Sprintf(proxy, "b"): "# HELP x\nnode_uname_info 1\n"}
	if n, err := WaitPodMetrics(t.Context(), client(t, answers), "node-exporter", "9100", "node_uname_info"); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	answers[fmt.Sprintf(proxy, "b")] = "# HELP node_uname_info\n"
	_, err := WaitPodMetrics(soon(t), client(t, answers), "node-exporter", "9100", "node_uname_info")
	testkit.Fails(t, err, fail.NotReady, "pod b on n2 does not serve node_uname_info")
	delete(answers, fmt.Sprintf(proxy, "a"))
	_, err = WaitPodMetrics(soon(t), client(t, answers), "node-exporter", "9100", "node_uname_info")
	testkit.Fails(t, err, fail.NotReady, "pod a on n1 at port 9100", "packet filter")
	answers[pods] = `{"kind":"PodList","apiVersion":"v1","items":[]}`
	_, err = WaitPodMetrics(soon(t), client(t, answers), "node-exporter", "9100", "node_uname_info")
	testkit.Fails(t, err, fail.NotReady, "node-exporter has no pods")
}

func TestAddressPools(t *testing.T) {
	const path = "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools"
	const counted = `{"spec":{},"status":{"assignedIPv4":1,"availableIPv4":2}},{"spec":{"autoAssign":false},"status":{"assignedIPv4":0,"availableIPv4":5}}`
	if free, err := WaitAddressPools(t.Context(), client(t, map[string]string{path: `{"items":[` + counted + `]}`}), 2); free != 2 || err != nil {
		t.Errorf("%d, %v", free, err)
	}
	_, err := WaitAddressPools(soon(t), client(t, map[string]string{path: `{"items":[` + counted + `,{"spec":{},"status":{}}]}`}), 3)
	testkit.Fails(t, err, fail.NotReady, "taken up 2 of 3 pools")
}

func TestKinds(t *testing.T) {
	const path = "/apis/snapshot.storage.k8s.io/v1"
	answers := map[string]string{path: `{"resources":[{"kind":"VolumeSnapshot"},{"kind":"VolumeSnapshotClass"}]}`}
	testkit.Must(t, WaitKinds(t.Context(), client(t, answers), "snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "VolumeSnapshot"))
	err := WaitKinds(soon(t), client(t, answers), "snapshot.storage.k8s.io/v1", "VolumeSnapshot", "VolumeSnapshotContent")
	testkit.Fails(t, err, fail.NotReady, "does not serve VolumeSnapshotContent")
	err = WaitKinds(soon(t), client(t, map[string]string{}), "snapshot.storage.k8s.io/v1", "VolumeSnapshot")
	testkit.Fails(t, err, fail.NotReady, "ask which kinds snapshot.storage.k8s.io/v1 has")
}

func TestLeader(t *testing.T) {
	const pods, lease = "/api/v1/namespaces/kube-system/pods", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/leader"
	held := func(by string) string {
		return fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"holderIdentity":%q}}`, by)
	}
	for _, by := range []string{"b", "b_7f1c"} {
		if got, err := WaitLeader(t.Context(), client(t, map[string]string{pods: twoPods, lease: held(by)}), "kube-system", "leader", "x"); got != "b" || err != nil {
			t.Errorf("%q, %v", got, err)
		}
	}
	_, err := WaitLeader(soon(t), client(t, map[string]string{pods: twoPods, lease: held("gone")}), "kube-system", "leader", "x")
	testkit.Fails(t, err, fail.NotReady, `held by "gone"`, "Deployment kube-system/x")
	_, err = WaitLeader(soon(t), client(t, map[string]string{pods: twoPods}), "kube-system", "leader", "x")
	testkit.Fails(t, err, fail.NotReady, "get lease kube-system/leader", "Deployment kube-system/x")
}
