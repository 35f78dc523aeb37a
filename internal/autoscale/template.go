package autoscale

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/cluster/scaling"
	"github.com/naupegos/naupegos/internal/fail"
)

// template returns a new node of a pool as protobuf. Its shape is that of the pool's last node.
func template(p scaling.Pool) ([]byte, error) {
	name := "template-of-" + p.Name
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	maps.Copy(n.Labels, p.Shape.Labels)
	var err error
	if n.Status.Capacity, err = resources(p.Shape.Capacity); err != nil {
		return nil, err
	}
	if n.Status.Allocatable, err = resources(p.Shape.Allocatable); err != nil {
		return nil, err
	}
	for _, t := range p.Shape.Taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	data, err := n.Marshal()
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write a node of pool %s", p.Name)
	}
	return data, nil
}

func resources(of map[string]string) (corev1.ResourceList, error) {
	out := corev1.ResourceList{}
	for name, text := range of {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read how much %s a node has", name)
		}
		out[corev1.ResourceName(name)] = q
	}
	return out, nil
}
