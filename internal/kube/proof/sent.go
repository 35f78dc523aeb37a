package proof

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// Sink is what each pod of a program of the OpenTelemetry collector sends to one exporter.
type Sink struct {
	App      string // label app.kubernetes.io/name
	Exporter string // "otlp_grpc/central"
	What     string // "log_records" or "metric_points"
}

// WaitSent waits until each pod of the collector has sent something to each of its exporters since it started, bounded by ctx. It returns how much they have sent, and what
// the exporters refused. An event of Kubernetes is made and deleted, so that there is one to send.
func WaitSent(ctx context.Context, c *kube.Client, namespace, port string, sinks []Sink) (sent, refused int, err error) {
	drop, err := makeEvent(ctx, c, namespace)
	if err != nil {
		return 0, 0, err
	}
	defer drop()
	err = answer.Poll(ctx, pause, func(ctx context.Context) error {
		sent, refused = 0, 0
		for _, s := range sinks {
			if err := s.each(ctx, c, namespace, port, &sent, &refused); err != nil {
				return err
			}
		}
		return nil
	})
	return sent, refused, err
}

// each adds the pods' counters of sent and refused records. It returns fail.NotReady if one has sent nothing.
func (s Sink) each(ctx context.Context, c *kube.Client, namespace, port string, sent, refused *int) error {
	pods, err := kube.Set(c).CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=" + s.App})
	if err != nil {
		return kube.APIError(ctx, err, "list the pods of %s", s.App).At(c.Server())
	}
	n := 0
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.DeletionTimestamp != nil {
			continue
		}
		body, err := kube.Set(c).CoreV1().RESTClient().Get().Namespace(namespace).Resource("pods").SubResource("proxy").Name(p.Name + ":" + port).Suffix("metrics").DoRaw(ctx)
		if err != nil {
			return fail.Wrap(fail.NotReady, err, "read the metrics of pod %s on %s at port %s", p.Name, p.Spec.NodeName, port).At(c.Server())
		}
		got, failed := s.counted(body)
		if got == 0 {
			return fail.New(fail.NotReady, "pod %s on %s has sent no %s to %s yet, %d have failed", p.Name, p.Spec.NodeName, strings.ReplaceAll(s.What, "_", " "), s.Exporter, failed).At(c.Server()).
				Do("look at its log: kubectl logs -n %s %s", namespace, p.Name)
		}
		*sent, *refused, n = *sent+got, *refused+failed, n+1
	}
	if n == 0 {
		return fail.New(fail.NotReady, "%s has no pods", s.App).At(c.Server())
	}
	return nil
}

// counted reads the collector's own counters.
func (s Sink) counted(metrics []byte) (sent, failed int) {
	for line := range strings.Lines(string(metrics)) {
		line = strings.TrimSpace(line)
		cut := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil || !strings.Contains(line[:max(cut, 0)], `exporter="`+s.Exporter+`"`) {
			continue
		}
		switch {
		case strings.HasPrefix(line, "otelcol_exporter_sent_"+s.What):
			sent += int(value)
		case strings.HasPrefix(line, "otelcol_exporter_send_failed_"+s.What):
			failed += int(value)
		}
	}
	return sent, failed
}

// makeEvent makes an event about a namespace, and returns a function that deletes it.
func makeEvent(ctx context.Context, c *kube.Client, namespace string) (drop func(), _ error) {
	events := kube.Set(c).CoreV1().Events(namespace)
	now := metav1.Now()
	e, err := events.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "naupegos-probe-", Namespace: namespace},
		InvolvedObject: corev1.ObjectReference{Kind: "Namespace", Name: namespace, Namespace: namespace},
		Type:           corev1.EventTypeNormal, Reason: "Probe", Message: fmt.Sprintf("naupegos tries whether this event is sent (%s)", now.UTC().Format(time.RFC3339)),
		Source: corev1.EventSource{Component: "naupegos"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, kube.APIError(ctx, err, "make an event in %s", namespace).At(c.Server())
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		_ = events.Delete(ctx, e.Name, metav1.DeleteOptions{}) // the API server deletes events after an hour
	}, nil
}
