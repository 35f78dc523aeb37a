package kube

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	rewritePage = 200
	rewriters   = 8 // in parallel; the client's own rate limit bounds them further
)

// RewriteSecrets updates every Secret without changing it, so that API servers store each again in the form that they use today
// (https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data). It returns the number of Secrets. done may be nil; it receives the number
// done so far. A Secret that another client changes or deletes meanwhile needs no update: that change has rewritten it.
func (c *Client) RewriteSecrets(ctx context.Context, done func(n int)) (int, error) {
	n, list := 0, metav1.ListOptions{Limit: rewritePage}
	for {
		secrets, err := c.set.CoreV1().Secrets("").List(ctx, list)
		if err != nil {
			return n, apiError(ctx, err, "list Secrets").At(c.server)
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(rewriters)
		for i := range secrets.Items {
			s := &secrets.Items[i]
			g.Go(func() error {
				_, err := c.set.CoreV1().Secrets(s.Namespace).Update(gctx, s, metav1.UpdateOptions{})
				if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
					return nil
				}
				return apiError(gctx, err, "store Secret %s of namespace %s again", s.Name, s.Namespace).At(c.server)
			})
		}
		if err := g.Wait(); err != nil {
			return n, err
		}
		if n += len(secrets.Items); done != nil {
			done(n)
		}
		if list.Continue = secrets.Continue; list.Continue == "" {
			return n, nil
		}
	}
}

// Disowned counts the objects from which Disown removed ties to another cluster.
type Disowned struct {
	Tokens   int // Secrets with a service account's token, which get new ones
	Volumes  int // PersistentVolumes that are now kept when their claims are deleted, because the other cluster still uses them
	Services int // that had a load balancer
}

// The annotations in which cloud-provider-openstack records the load balancer of a Service.
var balancerAnnotations = []string{"loadbalancer.openstack.org/load-balancer-id", "loadbalancer.openstack.org/load-balancer-address"}

// Disown removes from all objects the data that belongs to the cluster they come from and that another cluster must not use: tokens of service
// accounts, load balancers, and the right to delete volumes. No controller may run meanwhile.
func (c *Client) Disown(ctx context.Context) (d Disowned, err error) {
	secrets, err := c.set.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return d, apiError(ctx, err, "list tokens of service accounts").At(c.server)
	}
	for i := range secrets.Items {
		s := &secrets.Items[i]
		if s.Immutable != nil && *s.Immutable { // its token can't be replaced
			err = c.set.CoreV1().Secrets(s.Namespace).Delete(ctx, s.Name, metav1.DeleteOptions{})
		} else {
			delete(s.Data, corev1.ServiceAccountTokenKey)
			delete(s.Data, corev1.ServiceAccountRootCAKey)
			_, err = c.set.CoreV1().Secrets(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		}
		if err != nil {
			return d, apiError(ctx, err, "take the token out of Secret %s of namespace %s", s.Name, s.Namespace).At(c.server)
		}
		d.Tokens++
	}
	volumes, err := c.set.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return d, apiError(ctx, err, "list PersistentVolumes").At(c.server)
	}
	for i := range volumes.Items {
		v := &volumes.Items[i]
		if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRetain {
			continue
		}
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		if _, err := c.set.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{}); err != nil {
			return d, apiError(ctx, err, "have PersistentVolume %s kept", v.Name).At(c.server)
		}
		d.Volumes++
	}
	services, err := c.set.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return d, apiError(ctx, err, "list Services").At(c.server)
	}
	for i := range services.Items {
		s := &services.Items[i]
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		for _, a := range balancerAnnotations {
			delete(s.Annotations, a)
		}
		s, err := c.set.CoreV1().Services(s.Namespace).Update(ctx, s, metav1.UpdateOptions{})
		if err == nil {
			s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
			_, err = c.set.CoreV1().Services(s.Namespace).UpdateStatus(ctx, s, metav1.UpdateOptions{})
		}
		if err != nil {
			return d, apiError(ctx, err, "take the load balancer out of Service %s of namespace %s", services.Items[i].Name, services.Items[i].Namespace).At(c.server)
		}
		d.Services++
	}
	return d, nil
}
