package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// CloudSmokeNamespace is the namespace of the cloud's smoke test while it runs.
const CloudSmokeNamespace = "naupegos-smoke-cloud"

// CloudSmokeOptions are the parameters of the cloud's smoke test.
type CloudSmokeOptions struct {
	Image          string                           // of the bundle's echo server
	Timeout        time.Duration                    // time limit; 0 means 5 minutes
	Status         func(format string, args ...any) // receives what the test waits for; may be nil
	NoLoadBalancer bool                             // the cloud has no load balancers: request only a volume
	NoVolume       bool                             // the cloud has no volumes
	StorageClass   string                           // of the volume; empty: the cloud's default class
	Trouble        string                           // what to check if the load balancer does not serve; empty: the logs of the cloud's controllers
	// Ask sends requests to the load balancer until a backend answers, and returns where from. nil: an address is sufficient.
	Ask func(ctx context.Context, address, answer string) (from string, err error)
}

// CloudSmokeResult is the outcome of the cloud's smoke test.
type CloudSmokeResult struct {
	Address      string        // of the load balancer
	LoadBalancer time.Duration // from the start of the test until it had its address
	Asked        string        // where the requests came from; empty: none were sent
	Volume       time.Duration // from the start of the test until the claim was bound
}

// CloudSmoke proves that the cloud serves the cluster: a Service of type LoadBalancer gets an address, at which a pod answers, and a claim of
// the default StorageClass gets a volume. Before it returns, it gives everything back to the cloud. fail.NotReady names what did not succeed
// in time, with the warnings of the cloud's controllers.
func (c *Client) CloudSmoke(ctx context.Context, o CloudSmokeOptions) (CloudSmokeResult, error) {
	if o.Timeout <= 0 {
		o.Timeout = 5 * time.Minute
	}
	if o.Status == nil {
		o.Status = func(string, ...any) {}
	}
	wctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	r, err := c.cloudSmoke(wctx, o)
	if cleanup := c.freeNamespace(ctx, CloudSmokeNamespace, o); err == nil {
		err = cleanup
	}
	return r, err
}

func (c *Client) cloudSmoke(ctx context.Context, o CloudSmokeOptions) (CloudSmokeResult, error) {
	start := time.Now()
	var r CloudSmokeResult
	if err := c.freeNamespace(ctx, CloudSmokeNamespace, o); err != nil { // of an interrupted test
		return r, err
	}
	manifests, waitFor := cloudSmokeManifests(o)
	if _, err := c.Apply(ctx, []byte(manifests), ApplyOptions{}); err != nil {
		return r, err
	}
	o.Status("waiting for the %s", waitFor)
	if !o.NoLoadBalancer {
		if err := c.awaitBalancer(ctx, &r, start, cmp.Or(o.Trouble, cloudLogs)); err != nil {
			return r, err
		}
		if o.Ask != nil {
			o.Status("sending requests to the load balancer at %s", r.Address)
			var err error
			if r.Asked, err = o.Ask(ctx, r.Address, cloudSmokeServer); err != nil {
				return r, c.cloudTrouble(ctx, err, "the load balancer of a Service does not pass requests on", cmp.Or(o.Trouble, cloudLogs))
			}
		}
	}
	if o.NoVolume {
		return r, nil
	}
	err := follow(ctx, c.claims(CloudSmokeNamespace), func(objects map[string]runtime.Object) (bool, error) {
		p, ok := objects[manifest.Key(CloudSmokeNamespace, "data")].(*corev1.PersistentVolumeClaim)
		return ok && p.Status.Phase == corev1.ClaimBound, nil
	})
	r.Volume = time.Since(start)
	if o.StorageClass != "" {
		return r, c.cloudTrouble(ctx, err, "a PersistentVolumeClaim of StorageClass "+o.StorageClass+" has no volume", "look at the logs of the provisioner of the class in kube-system")
	}
	return r, c.cloudTrouble(ctx, err, "a PersistentVolumeClaim has no volume", cloudLogs)
}

// awaitBalancer waits until the Service has an address.
func (c *Client) awaitBalancer(ctx context.Context, r *CloudSmokeResult, start time.Time, hint string) error {
	err := follow(ctx, c.inNamespace(CloudSmokeNamespace), func(objects map[string]runtime.Object) (bool, error) {
		if s, ok := objects[manifest.Key(CloudSmokeNamespace, "echo")].(*corev1.Service); ok && r.Address == "" {
			for _, in := range s.Status.LoadBalancer.Ingress {
				r.Address, r.LoadBalancer = in.IP+in.Hostname, time.Since(start)
			}
		}
		return r.Address != "", nil
	})
	return c.cloudTrouble(ctx, err, "the load balancer of a Service has no address", hint)
}

// inNamespace follows the Services of a namespace.
func (c *Client) inNamespace(namespace string) follower {
	return follower{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.CoreV1().Services(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.CoreV1().Services(namespace).Watch(ctx, o)
		},
	}
}

// claims follows the PersistentVolumeClaims of a namespace.
func (c *Client) claims(namespace string) follower {
	return follower{
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return c.set.CoreV1().PersistentVolumeClaims(namespace).List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return c.watch.CoreV1().PersistentVolumeClaims(namespace).Watch(ctx, o)
		},
	}
}

// cloudLogs says where the cloud's controllers tell more.
const cloudLogs = "look at the logs of openstack-cloud-controller-manager and of the Cinder CSI controller in kube-system"

// cloudTrouble adds the controllers' warnings to an error; nil stays nil.
func (c *Client) cloudTrouble(ctx context.Context, err error, what, do string) error {
	if err == nil {
		return nil
	}
	return fail.Wrap(fail.KindOf(err), err, "smoke test: %s", strings.Join(append([]string{what}, c.warnings(ctx, CloudSmokeNamespace)...), "; ")).
		At(c.server).Do("%s", do)
}

// warnings lists the warning events in a namespace, each text once.
func (c *Client) warnings(ctx context.Context, namespace string) []string {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
	defer cancel()
	list, err := c.set.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=" + corev1.EventTypeWarning})
	if err != nil {
		return []string{"events can't be listed: " + err.Error()}
	}
	var out []string
	for i := range list.Items {
		e := &list.Items[i]
		out = append(out, fmt.Sprintf("%s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, strings.TrimSpace(e.Message)))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// freeNamespace deletes a namespace, so that its objects' cloud resources are given back, and waits until it is gone, even after ctx has ended.
func (c *Client) freeNamespace(ctx context.Context, name string, o CloudSmokeOptions) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Timeout)
	defer cancel()
	err := c.set.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil && !apierrors.IsConflict(err) { // conflict: it is already being deleted
		return apiError(ctx, err, "delete namespace %s", name).At(c.server)
	}
	o.Status("deleting the test's objects")
	return c.waitNamespaceGone(ctx, name)
}
