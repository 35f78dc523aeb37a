package layout

import (
	"bytes"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// printed is the relevant part of kubeadm's output.
const printed = `---
apiVersion: v1
kind: ServiceAccount
metadata: {name: kube-proxy, namespace: kube-system}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: kube-proxy, namespace: kube-system}
spec:
  template:
    spec:
      containers:
      - name: kube-proxy
        env:
        - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
`

func TestKubeProxyGetsTheEnvironment(t *testing.T) {
	out, err := withConnectionEnv([]byte(printed))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := manifest.Parse(out)
	if err != nil || len(objects) != 2 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	for _, want := range []string{"name: NODE_NAME", "name: HTTP2_READ_IDLE_TIMEOUT_SECONDS\n          value: \"5\"", "name: HTTP2_PING_TIMEOUT_SECONDS\n          value: \"3\""} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	// As kubeadm 1.37 prints it: its messages about patches come first.
	const reports = "[patches] Reading patches from path \"/etc/kubernetes/naupegos-patches\"\n[patches] Found the following patch files: [corednsdeployment+strategic.yaml]\n"
	if told, err := withConnectionEnv([]byte(reports + strings.ReplaceAll(printed, "---\napiVersion", "---apiVersion"))); err != nil || !bytes.Equal(told, out) {
		t.Errorf("with reports of patches: %v\n%s", err, told)
	}
	account, _, _ := strings.Cut(printed, "apiVersion: apps/v1")
	if _, err := withConnectionEnv([]byte(account)); err == nil {
		t.Error("a kube-proxy without a DaemonSet is taken")
	}
}
