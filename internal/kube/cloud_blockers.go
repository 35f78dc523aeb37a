package kube

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/kube/manifest"
)

// summary renders the counts: "2 load balancers, 1 volume".
func (a cloudObjects) summary() string {
	var out []string
	for _, x := range []struct {
		n    int
		what string
	}{{len(a.services), "load balancer"}, {max(len(a.claims), len(a.volumes)), "volume"}} {
		switch x.n {
		case 0:
		case 1:
			out = append(out, "1 "+x.what)
		default:
			out = append(out, fmt.Sprintf("%d %ss", x.n, x.what))
		}
	}
	return strings.Join(out, ", ")
}

// blockers says why each object remains. users maps claims to the pods that use them.
func (c *Client) blockers(ctx context.Context, all cloudObjects, users map[string][]string) ([]string, error) {
	var out []string
	for i := range all.services {
		s := &all.services[i]
		out = append(out, c.blocker(ctx, "Service", &s.ObjectMeta, "its load balancer is there"))
	}
	claimed := map[string]bool{}
	for i := range all.claims {
		p := &all.claims[i]
		claimed[p.Spec.VolumeName] = true
		why := "its volume is not taken back yet"
		if u := users[manifest.Key(p.Namespace, p.Name)]; len(u) > 0 {
			why = "used by pod " + strings.Join(u, ", ")
		}
		out = append(out, c.blocker(ctx, "PersistentVolumeClaim", &p.ObjectMeta, why))
	}
	attached, err := c.attachments(ctx)
	if err != nil {
		return nil, err
	}
	for i := range all.volumes {
		v := &all.volumes[i]
		if claimed[v.Name] {
			continue
		}
		why := volumeOf(v) + " is there, " + strings.ToLower(string(v.Status.Phase))
		if nodes := attached[v.Name]; len(nodes) > 0 {
			why += ", attached to " + strings.Join(nodes, ", ")
		}
		if v.Status.Message != "" {
			why += ": " + v.Status.Message
		}
		out = append(out, c.blocker(ctx, "PersistentVolume", &v.ObjectMeta, why))
	}
	return out, nil
}

// blocker describes one object: why it remains, its finalizers, and the last warning about it.
func (c *Client) blocker(ctx context.Context, kind string, m *metav1.ObjectMeta, why string) string {
	text := kind + " " + manifest.Key(m.Namespace, m.Name) + ": " + why
	if len(m.Finalizers) > 0 {
		text += " (finalizer " + strings.Join(m.Finalizers, ", ") + ")"
	}
	if warning := c.lastWarning(ctx, kind, m.Namespace, m.Name); warning != "" {
		text += "; last warning: " + warning
	}
	return text
}

// lastWarning returns the last warning event about an object. It only adds detail: if the list fails, it returns "".
func (c *Client) lastWarning(ctx context.Context, kind, namespace, name string) string {
	if namespace == "" {
		namespace = metav1.NamespaceDefault // namespace of the events of cluster-scoped objects
	}
	events, err := c.set.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=" + kind + ",involvedObject.name=" + name + ",type=" + corev1.EventTypeWarning,
	})
	if err != nil {
		return ""
	}
	var last *corev1.Event
	for i := range events.Items {
		if e := &events.Items[i]; last == nil || eventTime(e).After(eventTime(last).Time) {
			last = e
		}
	}
	if last == nil {
		return ""
	}
	return last.Reason + ": " + strings.TrimSpace(last.Message)
}

func eventTime(e *corev1.Event) metav1.Time {
	if !e.LastTimestamp.IsZero() {
		return e.LastTimestamp
	}
	return metav1.Time{Time: e.EventTime.Time}
}

// attachments returns, by PersistentVolume, the nodes that volumes are attached to.
func (c *Client) attachments(ctx context.Context) (map[string][]string, error) {
	list, err := c.set.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, apiError(ctx, err, "list VolumeAttachments").At(c.server)
	}
	out := map[string][]string{}
	for _, a := range list.Items {
		if name := a.Spec.Source.PersistentVolumeName; name != nil {
			out[*name] = append(out[*name], a.Spec.NodeName)
		}
	}
	return out, nil
}
