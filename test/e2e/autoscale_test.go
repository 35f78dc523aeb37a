//go:build e2e

package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/naupegos/naupegos/internal/autoscale/externalgrpc"
	"github.com/naupegos/naupegos/internal/testkit"
)

// calling returns a function that makes calls, each with two minutes.
func calling(t *testing.T) func(func(context.Context) error) error {
	return func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		return f(ctx)
	}
}

// TestAutoscale requests a machine and returns it as a cluster-autoscaler does (the module proxy does not have the real one): with its protocol,
// certificate and configuration, against the served pools of a real cluster.
func TestAutoscale(t *testing.T) {
	testkit.OnlyFull(t, "TestProtocol has the real server, and the scaler's unit tests all that can happen to it")
	r := newRig(t, "autoscale")
	r.document(size{controlPlanes: 1, workers: 1, pool: "      minReplicas: 1\n      maxReplicas: 2\n"})
	r.apply()
	at := net.JoinHostPort("127.0.0.1", itoa(testkit.FreePort(t)))
	c := r.autoscaler(t, at)
	stop := r.autoscales(t, at)
	call := calling(t)
	refresh := func(ctx context.Context) error {
		_, err := c.Refresh(ctx, &externalgrpc.RefreshRequest{})
		return err
	}
	grow := func(ctx context.Context) error {
		_, err := c.NodeGroupIncreaseSize(ctx, &externalgrpc.NodeGroupIncreaseSizeRequest{Id: "general", Delta: 1})
		return err
	}
	until(t, time.Minute, time.Second, func() error { return call(refresh) })
	first, second := "autoscale-general-1", "autoscale-general-2"
	r.inGroup(t, c, first, "general")
	r.inGroup(t, c, "autoscale-cp-1", "")

	r.calm.end()
	began := time.Now()
	testkit.Must(t, call(grow))
	t.Logf("FIGURE the autoscaler was answered after %v", time.Since(began).Round(100*time.Millisecond))
	if err := call(grow); status.Code(err) != codes.Unavailable {
		t.Errorf("while the cluster is changed: %v", err)
	}
	r.ready(t, second)
	t.Logf("FIGURE the node was Ready after %v", time.Since(began).Round(100*time.Millisecond))
	r.settled(t, c, 2)
	r.inGroup(t, c, second, "general")
	if err := call(grow); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("beyond maxReplicas: %v", err)
	}
	r.size.workers = 2 // the document says otherwise
	r.apply()
	r.unchanged()
	r.ready(t, second)

	r.calm.end()
	r.ssh(first, "systemctl stop kubelet") // it is in the pool, and the deletion repairs it, too
	testkit.Must(t, call(func(ctx context.Context) error {
		_, err := c.NodeGroupDeleteNodes(ctx, &externalgrpc.NodeGroupDeleteNodesRequest{Id: "general", Nodes: []*externalgrpc.ExternalGrpcNode{{Name: second}}})
		return err
	}))
	stop() // the running job ends in good order, and another server continues
	stop = r.autoscales(t, at)
	until(t, 4*time.Minute, time.Second, func() error {
		if err := call(refresh); err != nil {
			return err
		}
		_, err := r.api().CoreV1().Nodes().Get(t.Context(), second, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return fmt.Errorf("node %s is still there", second)
		}
		return err
	})
	r.settled(t, c, 1)
	r.ready(t, first)
	r.size.workers = 1
	r.apply()
	if out := r.must(0, "history", r.name).stdout; strings.Count(out, "autoscale") < 2 {
		t.Errorf("the journal has not both changes:\n%s", out)
	}
	stop()
	r.destroy()
}

// autoscales serves the cluster's pools until stop is called.
func (r *rig) autoscales(t *testing.T, at string) (stop func()) {
	t.Helper()
	cmd := exec.Command(built.bin, "--state-dir", r.state, "autoscale", r.name, "--listen", at)
	cmd.Env = append(os.Environ(), r.site.env()...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	testkit.Must(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func() {
		testkit.Must(t, cmd.Process.Signal(syscall.SIGTERM))
		select {
		case err := <-ended:
			testkit.Must(t, err)
		case <-time.After(5 * time.Minute):
			t.Fatal("the server does not end")
		}
	}
}

// autoscaler returns a client that is configured from the Secret, like a real autoscaler.
func (r *rig) autoscaler(t *testing.T, at string) externalgrpc.CloudProviderClient {
	t.Helper()
	var secret corev1.Secret
	testkit.Must(t, yaml.Unmarshal([]byte(r.must(0, "autoscale", r.name, "--listen", at, "--secret").stdout), &secret))
	var config struct{ Address string }
	testkit.Must(t, yaml.Unmarshal(secret.Data["cloud-config"], &config))
	cert := testkit.Value(tls.X509KeyPair(secret.Data["tls.crt"], secret.Data["tls.key"]))(t)
	authorities := x509.NewCertPool()
	if config.Address != at || !authorities.AppendCertsFromPEM(secret.Data["ca.crt"]) {
		t.Fatalf("the Secret does not lead to %s: %s", at, secret.Data["cloud-config"])
	}
	c := testkit.Value(grpc.NewClient(config.Address, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: authorities, Certificates: []tls.Certificate{cert}}))))(t)
	t.Cleanup(func() { c.Close() })
	return externalgrpc.NewCloudProviderClient(c)
}

// inGroup asserts that the autoscaler maps a node, as the API has it, to the right group.
func (r *rig) inGroup(t *testing.T, c externalgrpc.CloudProviderClient, node, want string) {
	t.Helper()
	n := testkit.Value(r.api().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{}))(t)
	got := testkit.Value(c.NodeGroupForNode(t.Context(), &externalgrpc.NodeGroupForNodeRequest{Node: &externalgrpc.ExternalGrpcNode{Name: n.Name, ProviderID: n.Spec.ProviderID}}))(t)
	if id := got.GetNodeGroup().GetId(); id != want || want != "" && n.Spec.ProviderID == "" {
		t.Errorf("node %s (%s) is of group %q, want %q", node, n.Spec.ProviderID, id, want)
	}
}

// settled waits until the autoscaler sees exactly want instances, all running.
func (r *rig) settled(t *testing.T, c externalgrpc.CloudProviderClient, want int) {
	t.Helper()
	until(t, 4*time.Minute, time.Second, func() error {
		_, err := c.Refresh(t.Context(), &externalgrpc.RefreshRequest{})
		list, e := c.NodeGroupNodes(t.Context(), &externalgrpc.NodeGroupNodesRequest{Id: "general"})
		if err = errors.Join(err, e); err != nil {
			return err
		}
		running := 0
		for _, i := range list.GetInstances() {
			if i.GetStatus().GetInstanceState() == externalgrpc.InstanceStatus_instanceRunning {
				running++
			}
		}
		if running != want || len(list.GetInstances()) != want {
			return fmt.Errorf("instances: %v, want %d that run", list.GetInstances(), want)
		}
		return nil
	})
}

// ready waits until a node is Ready.
func (r *rig) ready(t *testing.T, node string) {
	t.Helper()
	until(t, 4*time.Minute, time.Second, func() error {
		n, err := r.api().CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("node %s is not ready", node)
	})
}
