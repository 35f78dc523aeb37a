package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/expression"
	"github.com/naupegos/naupegos/internal/fail"
)

// Check is a condition that must hold for every object of a kind; at least one object must exist.
type Check struct {
	Name, APIVersion, Kind, Namespace string // no namespace: all
	Expression                        string // CEL, of the variable object
}

// checkPage is the number of objects that one request fetches.
const checkPage = 500

// Holds returns fail.NotReady with the object if the condition of a check does not hold or can't be evaluated.
func (c *Client) Holds(ctx context.Context, k Check) error {
	condition, err := expression.Compile(k.Expression)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "check %s", k.Name)
	}
	m, err := c.Mapping(ctx, k.APIVersion, k.Kind)
	if err != nil {
		return fail.Wrap(fail.KindOf(err), err, "check %s", k.Name)
	}
	looked := 0
	for o := (metav1.ListOptions{Limit: checkPage}); ; {
		list, err := c.dynamic.Resource(m.Resource).Namespace(k.Namespace).List(ctx, o)
		if err != nil {
			return apiError(ctx, err, "check %s: list %s", k.Name, m.Resource.Resource).At(c.server)
		}
		for i := range list.Items {
			object := &list.Items[i]
			looked++
			if holds, err := condition.Holds(ctx, object.Object); err != nil || !holds {
				return k.broken(object.GetNamespace(), object.GetName(), err)
			}
		}
		if o.Continue = list.GetContinue(); o.Continue == "" {
			break
		}
	}
	if looked == 0 {
		return fail.New(fail.NotReady, "check %s: there is no %s%s", k.Name, k.Kind, in(k.Namespace))
	}
	return nil
}

// broken returns fail.NotReady with the object for which a condition does not hold. A failed evaluation counts too: a missing field may still appear.
func (k Check) broken(namespace, name string, err error) error {
	what := fmt.Sprintf("check %s does not hold of %s %s%s: %s", k.Name, k.Kind, name, in(namespace), k.Expression)
	if err != nil {
		return fail.Wrap(fail.NotReady, err, "%s", what)
	}
	return fail.New(fail.NotReady, "%s", what)
}

func in(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}
