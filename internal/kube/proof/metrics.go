// Package proof uses addons as their users do, through the API alone, and returns its observations. It knows neither documents nor bundles.
package proof

import (
	"bytes"
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// pause is the pause between two attempts.
const pause = time.Second

// namespace is the namespace of all addons.
const namespace = "kube-system"

// WaitPodMetrics waits until every pod of an addon serves a metric at a port, bounded by ctx, and returns the number of pods. It finds the pods by the label
// app.kubernetes.io/name, and reaches them through the API server.
func WaitPodMetrics(ctx context.Context, c *kube.Client, app, port, metric string) (int, error) {
	n := 0
	err := answer.Poll(ctx, pause, func(ctx context.Context) error {
		pods, err := kube.Set(c).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app})
		if err != nil {
			return kube.APIError(ctx, err, "list the pods of %s", app).At(c.Server())
		}
		if n = len(pods.Items); n == 0 {
			return fail.New(fail.NotReady, "%s has no pods", app).At(c.Server())
		}
		for i := range pods.Items {
			if err := serves(ctx, c, &pods.Items[i], port, metric); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

// serves returns fail.NotReady until a pod serves a metric.
func serves(ctx context.Context, c *kube.Client, pod *corev1.Pod, port, metric string) error {
	name := pod.Name + " on " + pod.Spec.NodeName
	body, err := kube.Set(c).CoreV1().RESTClient().Get().Namespace(pod.Namespace).Resource("pods").SubResource("proxy").Name(pod.Name + ":" + port).Suffix("metrics").DoRaw(ctx)
	if err != nil {
		return fail.Wrap(fail.NotReady, err, "read the metrics of pod %s at port %s", name, port).At(c.Server()).
			Do("look at its log, and whether a packet filter drops the port between the machines")
	}
	if !bytes.Contains(body, []byte("\n"+metric)) {
		return fail.New(fail.NotReady, "pod %s does not serve %s yet", name, metric).At(c.Server())
	}
	return nil
}

// WaitPodAnswer waits until a pod of an addon gives an answer that begins with want, at a port and path, bounded by ctx. The error quotes what it says instead.
func WaitPodAnswer(ctx context.Context, c *kube.Client, namespace, app, port, path, want string) error {
	return waitPod(ctx, c, namespace, app, func(ctx context.Context, p *corev1.Pod) *fail.Error {
		body, err := kube.Set(c).CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").SubResource("proxy").Name(p.Name + ":" + port).Suffix(path).DoRaw(ctx)
		switch {
		case err != nil:
			return fail.Wrap(fail.NotReady, err, "ask pod %s at port %s", p.Name, port).At(c.Server())
		case bytes.HasPrefix(body, []byte(want)):
			return nil
		}
		return fail.New(fail.NotReady, "pod %s says %q", p.Name, bytes.TrimSpace(body[:min(len(body), 500)])).At(c.Server()).Do("look at its log")
	})
}

// waitPod waits until check accepts a pod of an addon, by the label app.kubernetes.io/name, bounded by ctx. It skips pods that are being deleted.
func waitPod(ctx context.Context, c *kube.Client, namespace, app string, check func(context.Context, *corev1.Pod) *fail.Error) error {
	return answer.Poll(ctx, pause, func(ctx context.Context) error {
		pods, err := kube.Set(c).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app})
		if err != nil {
			return kube.APIError(ctx, err, "list the pods of %s", app).At(c.Server())
		}
		last := fail.New(fail.NotReady, "%s has no pods", app).At(c.Server())
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.DeletionTimestamp != nil {
				continue
			}
			if last = check(ctx, p); last == nil {
				return nil
			}
		}
		return last
	})
}
