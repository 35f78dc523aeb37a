package proof

import (
	"context"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// Monitoring says where Prometheus and Alertmanager are: the namespace, the values of the label app.kubernetes.io/name, and the ports of the pods.
type Monitoring struct {
	Namespace                      string
	Prometheus, PrometheusPort     string
	Alertmanager, AlertmanagerPort string
}

// target is a target of Prometheus, as its API describes it.
type target struct {
	Labels    map[string]string
	Health    string // "up", "down", or "unknown" before the first reading
	LastError string
}

// The jobs of the targets that every cluster has, and label of control-plane nodes.
const (
	jobAPIServer = "apiserver"
	jobKubelet   = "kubelet"
	controlPlane = "node-role.kubernetes.io/control-plane"
)

// WaitTargets waits until each pod of Prometheus reads the API server of each Ready control-plane node and the kubelet of each Ready node, bounded by ctx. It returns
// their number.
func (m Monitoring) WaitTargets(ctx context.Context, c *kube.Client) (int, error) {
	n := 0
	err := answer.Poll(ctx, pause, func(ctx context.Context) (err error) {
		n, err = m.reads(ctx, c)
		return err
	})
	return n, err
}

// reads returns the number of targets that each pod of Prometheus must read, and fail.NotReady until it does.
func (m Monitoring) reads(ctx context.Context, c *kube.Client) (int, error) {
	nodes, err := kube.Set(c).CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, kube.APIError(ctx, err, "list the nodes").At(c.Server())
	}
	var wanted [][2]string
	for i := range nodes.Items {
		node := &nodes.Items[i]
		if !ready(node) {
			continue
		}
		wanted = append(wanted, [2]string{jobKubelet, node.Name})
		if _, ok := node.Labels[controlPlane]; ok {
			wanted = append(wanted, [2]string{jobAPIServer, node.Name})
		}
	}
	if len(wanted) == 0 {
		return 0, fail.New(fail.NotReady, "no node is Ready").At(c.Server())
	}
	return len(wanted), m.each(ctx, c, m.Prometheus, func(pod string) error {
		seen, err := m.targets(ctx, c, pod)
		if err != nil {
			return err
		}
		for _, w := range wanted {
			if err := seen.up(w[0], w[1], pod, c.Server()); err != nil {
				return err
			}
		}
		return nil
	})
}

// targets are targets by job and node.
type targets map[[2]string]target

// up returns fail.NotReady unless a target is up.
func (t targets) up(job, node, pod, server string) error {
	switch got, found := t[[2]string{job, node}]; {
	case !found:
		return fail.New(fail.NotReady, "pod %s has not found the %s of node %s yet", pod, job, node).At(server).Do("look at its log")
	case got.Health == "down":
		return fail.New(fail.NotReady, "pod %s cannot read the %s of node %s: %s", pod, job, node, got.LastError).At(server)
	case got.Health != "up":
		return fail.New(fail.NotReady, "pod %s has not read the %s of node %s yet", pod, job, node).At(server)
	}
	return nil
}

// targets returns the targets of API servers and kubelets that a pod of Prometheus knows.
func (m Monitoring) targets(ctx context.Context, c *kube.Client, pod string) (targets, error) {
	out := targets{}
	for _, job := range []string{jobAPIServer, jobKubelet} {
		var got struct {
			Data struct{ ActiveTargets []target }
		}
		if err := m.get(ctx, c, pod, "targets", &got, "state", "active", "scrapePool", job); err != nil {
			return nil, err
		}
		for _, t := range got.Data.ActiveTargets {
			out[[2]string{job, t.Labels["node"]}] = t
		}
	}
	return out, nil
}

// oldAlert is an alert that ended long ago, so Alertmanager notifies no receiver.
const oldAlert = `[{"labels":{"alertname":"NaupegosProbe","severity":"none"},"startsAt":"2000-01-01T00:00:00Z","endsAt":"2000-01-01T00:01:00Z"}]`

// WaitAlerts waits until each pod of Alertmanager takes an alert and each pod of Prometheus has found all of them, bounded by ctx.
func (m Monitoring) WaitAlerts(ctx context.Context, c *kube.Client) error {
	return answer.Poll(ctx, pause, func(ctx context.Context) error { return m.alerts(ctx, c) })
}

// alerts returns fail.NotReady until alerts are taken.
func (m Monitoring) alerts(ctx context.Context, c *kube.Client) error {
	managers := 0
	err := m.each(ctx, c, m.Alertmanager, func(pod string) error {
		managers++
		err := kube.Set(c).CoreV1().RESTClient().Post().Namespace(m.Namespace).Resource("pods").SubResource("proxy").Name(pod+":"+m.AlertmanagerPort).Suffix("api/v2/alerts").
			SetHeader("Content-Type", "application/json").Body([]byte(oldAlert)).Do(ctx).Error()
		if err != nil {
			return fail.Wrap(fail.NotReady, err, "give pod %s an alert", pod).At(c.Server()).Do("look at its log")
		}
		return nil
	})
	if err != nil {
		return err
	}
	return m.each(ctx, c, m.Prometheus, func(pod string) error {
		var got struct {
			Data struct{ ActiveAlertmanagers []struct{ URL string } }
		}
		if err := m.get(ctx, c, pod, "alertmanagers", &got); err != nil {
			return err
		}
		if n := len(got.Data.ActiveAlertmanagers); n < managers {
			return fail.New(fail.NotReady, "pod %s knows %d of %d pods of %s", pod, n, managers, m.Alertmanager).At(c.Server()).Do("look at its log")
		}
		return nil
	})
}

// each calls f with the name of each pod of a program that is not being deleted; there must be one.
func (m Monitoring) each(ctx context.Context, c *kube.Client, app string, f func(pod string) error) error {
	pods, err := kube.Set(c).CoreV1().Pods(m.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + app})
	if err != nil {
		return kube.APIError(ctx, err, "list the pods of %s", app).At(c.Server())
	}
	n := 0
	for i := range pods.Items {
		if pods.Items[i].DeletionTimestamp != nil {
			continue
		}
		n++
		if err := f(pods.Items[i].Name); err != nil {
			return err
		}
	}
	if n == 0 {
		return fail.New(fail.NotReady, "%s has no pods", app).At(c.Server())
	}
	return nil
}

// get asks a pod of Prometheus. args are pairs of a parameter's name and value.
func (m Monitoring) get(ctx context.Context, c *kube.Client, pod, what string, into any, args ...string) error {
	r := kube.Set(c).CoreV1().RESTClient().Get().Namespace(m.Namespace).Resource("pods").SubResource("proxy").Name(pod + ":" + m.PrometheusPort).Suffix("api/v1/" + what)
	for i := 0; i < len(args); i += 2 {
		r = r.Param(args[i], args[i+1]) //nolint:gosec // they are pairs
	}
	body, err := r.DoRaw(ctx)
	if err != nil {
		return fail.Wrap(fail.NotReady, err, "ask pod %s for its %s", pod, what).At(c.Server()).Do("look at its log")
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fail.Wrap(fail.NotReady, err, "read pod %s's answer about its %s", pod, what).At(c.Server())
	}
	return nil
}

func ready(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
