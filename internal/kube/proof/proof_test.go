package proof

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// soon returns a context that ends between the first and the second attempt, which begins after pause.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), pause*9/10)
	t.Cleanup(cancel)
	return ctx
}

const twoPods = `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"kube-system"},"spec":{"nodeName":"n1"}},{"metadata":{"name":"b","namespace":"kube-system"},"spec":{"nodeName":"n2"}}]}`

func TestPodMetrics(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	const path = "/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools"
	const counted = `{"spec":{},"status":{"assignedIPv4":1,"availableIPv4":2}},{"spec":{"autoAssign":false},"status":{"assignedIPv4":0,"availableIPv4":5}}`
	if free, err := WaitAddressPools(t.Context(), client(t, map[string]string{path: `{"items":[` + counted + `]}`}), 2); free != 2 || err != nil {
		t.Errorf("%d, %v", free, err)
	}
	_, err := WaitAddressPools(soon(t), client(t, map[string]string{path: `{"items":[` + counted + `,{"spec":{},"status":{}}]}`}), 3)
	testkit.Fails(t, err, fail.NotReady, "taken up 2 of 3 pools")
}

func TestKinds(t *testing.T) {
	t.Parallel()
	const path = "/apis/snapshot.storage.k8s.io/v1"
	answers := map[string]string{path: `{"resources":[{"kind":"VolumeSnapshot"},{"kind":"VolumeSnapshotClass"}]}`}
	testkit.Must(t, WaitKinds(t.Context(), client(t, answers), "snapshot.storage.k8s.io/v1", "VolumeSnapshotClass", "VolumeSnapshot"))
	err := WaitKinds(soon(t), client(t, answers), "snapshot.storage.k8s.io/v1", "VolumeSnapshot", "VolumeSnapshotContent")
	testkit.Fails(t, err, fail.NotReady, "does not serve VolumeSnapshotContent")
	err = WaitKinds(soon(t), client(t, map[string]string{}), "snapshot.storage.k8s.io/v1", "VolumeSnapshot")
	testkit.Fails(t, err, fail.NotReady, "ask which kinds snapshot.storage.k8s.io/v1 has")
}

func TestLeader(t *testing.T) {
	t.Parallel()
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

func TestPodAnswer(t *testing.T) {
	t.Parallel()
	const pods, proxy = "/api/v1/namespaces/kube-system/pods", "/api/v1/namespaces/kube-system/pods/%s:7979/proxy/synced"
	ask := func(ctx context.Context, answers map[string]string) error {
		return WaitPodAnswer(ctx, client(t, answers), "kube-system", "external-dns", "7979", "synced", "published")
	}
	testkit.Must(t, ask(t.Context(), map[string]string{pods: twoPods, fmt.Sprintf(proxy, "b"): "published: now"}))
	testkit.Fails(t, ask(soon(t), map[string]string{pods: twoPods, fmt.Sprintf(proxy, "b"): "failed: the key is wrong\n"}), fail.NotReady, `pod b says "failed: the key is wrong"`)
	testkit.Fails(t, ask(soon(t), map[string]string{pods: twoPods}), fail.NotReady, "ask pod b at port 7979")
	testkit.Fails(t, ask(soon(t), map[string]string{pods: `{"kind":"PodList","apiVersion":"v1","items":[]}`}), fail.NotReady, "external-dns has no pods")
}

// TestIssueCertificate: the probe reads the certificate, and names the condition of a certificate that is not issued. The fake API answers all methods alike.
func TestIssueCertificate(t *testing.T) {
	t.Parallel()
	const base, secret = "/apis/cert-manager.io/v1/namespaces/cert-manager/", "/api/v1/namespaces/cert-manager/secrets/naupegos-probe"
	held := func(host string) string {
		key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
		of := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotAfter: time.Now().Add(time.Hour)}
		der := testkit.Value(x509.CreateCertificate(rand.Reader, of, of, key.Public(), key))(t)
		text := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		return fmt.Sprintf(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"naupegos-probe"},"data":{"tls.crt":%q,"tls.key":"a2V5"}}`, text)
	}
	answers := map[string]string{base + "issuers": "{}", base + "certificates": "{}", base + "certificates/naupegos-probe": `{"status":{"conditions":[{"type":"Ready","status":"True"}]}}`, secret: held(probeHost)}
	if _, err := IssueCertificate(t.Context(), client(t, answers), "cert-manager"); err != nil {
		t.Error(err)
	}
	answers[secret] = held("other.example.org")
	_, err := IssueCertificate(soon(t), client(t, answers), "cert-manager")
	testkit.Fails(t, err, fail.Internal, "read the certificate", "other.example.org")
	answers[base+"certificates/naupegos-probe"] = `{"status":{"conditions":[{"type":"Ready","status":"False","message":"no issuer"}]}}`
	_, err = IssueCertificate(soon(t), client(t, answers), "cert-manager")
	testkit.Fails(t, err, fail.NotReady, "not issued: no issuer", "Deployment cert-manager/cert-manager")
	delete(answers, base+"certificates")
	_, err = IssueCertificate(soon(t), client(t, answers), "cert-manager")
	testkit.Fails(t, err, fail.NotReady, "(certificates)", "cert-manager-webhook")
}

// TestMonitoring: every Ready node's kubelet and every control plane's API server must be up in each Prometheus, and errors say what Prometheus reports.
func TestMonitoring(t *testing.T) {
	const pods, nodes, proxy = "/api/v1/namespaces/kube-system/pods", "/api/v1/nodes", "/api/v1/namespaces/kube-system/pods/%s:%s/proxy/api/%s"
	m := Monitoring{Namespace: "kube-system", Prometheus: "prometheus", PrometheusPort: "9090", Alertmanager: "alertmanager", AlertmanagerPort: "9093"}
	all := `{"data":{"activeTargets":[{"labels":{"node":"n1"},"health":"up"},{"labels":{"node":"n2"},"health":"up"}]}}`
	answers := map[string]string{pods: twoPods, nodes: `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"n1","labels":{"node-role.kubernetes.io/control-plane":""}},"status":{"conditions":[{"type":"Ready","status":"True"}]}},` +
		`{"metadata":{"name":"n2"},"status":{"conditions":[{"type":"Ready","status":"True"}]}},{"metadata":{"name":"n3"},"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}]}`}
	for _, pod := range []string{"a", "b"} {
		answers[fmt.Sprintf(proxy, pod, "9090", "v1/targets")] = all
		answers[fmt.Sprintf(proxy, pod, "9090", "v1/alertmanagers")] = `{"data":{"activeAlertmanagers":[{"url":"http://a"},{"url":"http://b"}]}}`
		answers[fmt.Sprintf(proxy, pod, "9093", "v2/alerts")] = "{}"
	}
	if n, err := m.WaitTargets(t.Context(), client(t, answers)); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	testkit.Must(t, m.WaitAlerts(t.Context(), client(t, answers)))
	for want, seen := range map[string]string{
		"cannot read the kubelet of node n1: no route to host": `{"data":{"activeTargets":[{"labels":{"node":"n1"},"health":"down","lastError":"no route to host"},{"labels":{"node":"n2"},"health":"up"}]}}`,
		"has not read the kubelet of node n2":                  `{"data":{"activeTargets":[{"labels":{"node":"n1"},"health":"up"},{"labels":{"node":"n2"},"health":"unknown"}]}}`,
		"has not found the kubelet of node n2":                 `{"data":{"activeTargets":[{"labels":{"node":"n1"},"health":"up"}]}}`,
		"read pod b's answer":                                  "not JSON",
	} {
		answers[fmt.Sprintf(proxy, "b", "9090", "v1/targets")] = seen
		_, err := m.reads(t.Context(), client(t, answers))
		testkit.Fails(t, err, fail.NotReady, want)
	}
	answers[fmt.Sprintf(proxy, "a", "9090", "v1/alertmanagers")] = `{"data":{"activeAlertmanagers":[{"url":"http://a"}]}}`
	testkit.Fails(t, m.alerts(t.Context(), client(t, answers)), fail.NotReady, "pod a knows 1 of 2 pods of alertmanager")
	delete(answers, fmt.Sprintf(proxy, "b", "9093", "v2/alerts"))
	testkit.Fails(t, m.alerts(t.Context(), client(t, answers)), fail.NotReady, "give pod b an alert")
	answers[pods] = `{"kind":"PodList","apiVersion":"v1","items":[]}`
	_, err := m.reads(t.Context(), client(t, answers))
	testkit.Fails(t, err, fail.NotReady, "prometheus has no pods")
}

// TestRounds: a round counts once the metrics have it; the error shows a policy's failure in the last round, not in an earlier one.
func TestRounds(t *testing.T) {
	const pods, metrics, log = "/api/v1/namespaces/kube-system/pods", "/api/v1/namespaces/kube-system/pods/https:b:10258/proxy/metrics", "/api/v1/namespaces/kube-system/pods/b/log"
	const ended = "I1130 12:00:01.000000       1 descheduler.go:200] \"Number of evictions/requests\" totalEvicted=0 evictionRequests=0\n"
	const broken = "E1130 12:00:00.000000       1 descheduler.go:250] \"running balance extension point failed with error\" err=\"no usage\" profile=\"naupegos\"\n"
	const counters = `# TYPE descheduler_loop_duration_seconds histogram
descheduler_loop_duration_seconds_bucket{le="0.01"} 1
descheduler_loop_duration_seconds_count 3
descheduler_pods_evicted_total{namespace="shop",node="n1",profile="naupegos",result="success",strategy="RemoveDuplicates"} 2
descheduler_pods_evicted_total{namespace="shop",node="n2",profile="naupegos",result="success",strategy="LowNodeUtilization"} 1
descheduler_pods_evicted_total{namespace="shop",node="n2",profile="naupegos",result="maximum number of evicted pods per round reached",strategy="LowNodeUtilization"} 4
descheduler_descheduler_loop_duration_seconds_count 9
`
	want := Rounds{Ended: 3, Evicted: 3, Refused: 4}
	got, err := WaitRounds(t.Context(), client(t, map[string]string{pods: twoPods, metrics: counters, log: broken + ended + ended}), "kube-system", "descheduler", "10258")
	if err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	b := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "kube-system"}}
	for why, answers := range map[string]map[string]string{
		"the last round of pod b failed: E1130 12:00:00": {metrics: counters, log: ended + broken + ended},
		"pod b has not ended a round yet":                {metrics: "descheduler_loop_duration_seconds_count 0\n"},
		"read the metrics of pod b at port 10258":        {},
		"read the log of pod b":                          {metrics: counters},
	} {
		_, err := roundsOf(t.Context(), client(t, answers), b, "10258")
		if err == nil {
			t.Errorf("no error; want one that says %q", why)
			continue
		}
		testkit.Fails(t, err, fail.NotReady, why)
	}
}

// TestConditions: a condition counts if the pod has set it since it started; a true one is a finding, not a failure.
func TestConditions(t *testing.T) {
	const since, before = "2026-01-01T12:00:00Z", "2026-01-01T11:59:59Z"
	const pods = `{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"a","namespace":"kube-system"},"spec":{"nodeName":"n1"},` +
		`"status":{"containerStatuses":[{"name":"c","state":{"running":{"startedAt":"` + since + `"}}}]}},` +
		`{"metadata":{"name":"old","namespace":"kube-system","deletionTimestamp":"2026-01-01T12:00:00Z"},"spec":{"nodeName":"n2"}}]}`
	held := func(kind, status, at string) string {
		return fmt.Sprintf(`{"type":%q,"status":%q,"message":"of sda1","lastHeartbeatTime":%q}`, kind, status, at)
	}
	with := func(conditions ...string) *kube.Client {
		return client(t, map[string]string{"/api/v1/namespaces/kube-system/pods": pods,
			"/api/v1/nodes/n1": `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1"},"status":{"conditions":[` + strings.Join(conditions, ",") + `]}}`})
	}
	want := []string{"KernelDeadlock", "ReadonlyFilesystem"}
	n, problems, err := WaitConditions(t.Context(), with(held("KernelDeadlock", "False", since), held("ReadonlyFilesystem", "True", since)), "node-problem-detector", want)
	if n != 1 || err != nil || strings.Join(problems, "|") != "ReadonlyFilesystem on n1 (of sda1)" {
		t.Errorf("%d nodes, %q, %v", n, problems, err)
	}
	began := testkit.Value(time.Parse(time.RFC3339, since))(t)
	a := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "kube-system"}, Spec: corev1.PodSpec{NodeName: "n1"}, Status: corev1.PodStatus{
		ContainerStatuses: []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}}}}}
	for name, c := range map[string]*kube.Client{
		"set by an earlier pod": with(held("KernelDeadlock", "False", since), held("ReadonlyFilesystem", "False", before)), "not set": with(held("KernelDeadlock", "False", since)),
	} {
		_, err := conditionsOf(t.Context(), c, a, want)
		testkit.Fails(t, err, fail.NotReady, "pod a has not set the condition ReadonlyFilesystem of node n1 yet", "kubectl logs -n kube-system a")
		if t.Failed() {
			t.Log(name)
		}
	}
	a.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	_, err = conditionsOf(t.Context(), with(), a, want)
	testkit.Fails(t, err, fail.NotReady, "pod a on n1 does not run")
}

// TestSent: each collector must have sent something to each exporter; other pods and other exporters do not count.
func TestSent(t *testing.T) {
	const pods, proxy = "/api/v1/namespaces/otel/pods", "/api/v1/namespaces/otel/pods/%s:8888/proxy/metrics"
	const metrics = "# TYPE x counter\notelcol_exporter_sent_log_records{exporter=\"file/here\",x=\"y\"} 7\notelcol_exporter_send_failed_log_records{exporter=\"file/here\"} 2\n" +
		"otelcol_exporter_sent_metric_points_total{exporter=\"file/there\"} 5\n"
	list := strings.ReplaceAll(twoPods, "kube-system", "otel")
	answers := map[string]string{pods: list, fmt.Sprintf(proxy, "a"): metrics, fmt.Sprintf(proxy, "b"): metrics, "/api/v1/namespaces/otel/events": `{"kind":"Event","apiVersion":"v1","metadata":{"name":"e"}}`}
	sent, refused, err := WaitSent(t.Context(), client(t, answers), "otel", "8888", []Sink{{"c", "file/here", "log_records"}, {"c", "file/there", "metric_points"}})
	if sent != 24 || refused != 4 || err != nil {
		t.Errorf("%d sent, %d refused, %v", sent, refused, err)
	}
	_, _, err = WaitSent(soon(t), client(t, answers), "otel", "8888", []Sink{{"c", "file/there", "log_records"}})
	testkit.Fails(t, err, fail.NotReady, "pod a on n1 has sent no log records to file/there yet", "kubectl logs -n otel a")
	answers[pods] = `{"kind":"PodList","apiVersion":"v1","items":[]}`
	_, _, err = WaitSent(soon(t), client(t, answers), "otel", "8888", []Sink{{"c", "file/here", "log_records"}})
	testkit.Fails(t, err, fail.NotReady, "c has no pods")
}
