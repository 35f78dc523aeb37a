//go:build integration

package kube

import (
	"context"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestInsight reads requests, restarts, events, volumes and metrics from a real API server.
func TestInsight(t *testing.T) {
	c := startAPI(t).client()
	ctx := t.Context()
	testkit.Must(t, c.WaitReady(ctx))
	_, err := c.Apply(ctx, []byte(`apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {serviceAccountName: web, containers: [{name: web, image: example.org/web}]}
---
apiVersion: v1
kind: Event
metadata: {name: web.1, namespace: shop}
involvedObject: {kind: Pod, namespace: shop, name: web}
type: Warning
reason: BackOff
message: no such image
count: 3
lastTimestamp: "2126-11-29T12:00:00Z"
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: pvc-1, annotations: {pv.kubernetes.io/provisioned-by: rancher.io/local-path}}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  hostPath: {path: /var/lib/local-path/1}
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: shop, name: data}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: by-hand}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], storageClassName: "", hostPath: {path: /srv}}
`), ApplyOptions{})
	testkit.Must(t, err)

	testkit.Must(t, Ask(ctx, c))
	if restarts := testkit.Value(Restarts(ctx, c))(t); len(restarts) != 1 {
		t.Errorf("restarts of %v, want those of one pod", restarts)
	}
	events := testkit.Value(Events(ctx, c, time.Now(), 10, map[string]string{"shop/web": "node-1"}))(t)
	if len(events) != 1 || !events[0].Warning || events[0].Object != "Pod shop/web" || events[0].Node != "node-1" || events[0].Count != 3 {
		t.Errorf("the events are %+v", events)
	}
	if volumes := testkit.Value(VolumesOf(ctx, c, "rancher.io/local-path"))(t); len(volumes) != 1 || volumes[0] != "shop/data (pvc-1)" {
		t.Errorf("the volumes are %v", volumes)
	}
	bounded, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	_, err = WaitMeasuredNodes(bounded, c)
	testkit.Fails(t, err, fail.NotReady, "metrics-server")
	ended, stop := context.WithCancel(ctx)
	stop()
	if err := Ask(ended, c); err == nil {
		t.Error("a request after its context has ended succeeds")
	}
}
