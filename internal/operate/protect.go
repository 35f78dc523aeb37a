package operate

import (
	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
)

// guard refuses to end a cluster or to shrink its control plane while the stored document protects the cluster. The new document does not count: the
// protection must first be removed and that change applied.
func (b *Begun) guard() error {
	if b.Record == nil {
		return nil
	}
	return guarded(b.Record.Name, b.Asked.Verb, b.Record.Document, b.Cluster.Doc)
}

// guarded implements guard for a verb and the two documents.
func guarded(name, verb string, stored []byte, doc *v1alpha1.Cluster) error {
	if len(stored) == 0 {
		return nil
	}
	was, err := validation.Parse("the stored document", stored)
	if err != nil || !was.Spec.Protect {
		return err
	}
	refused := func(what string) error {
		return fail.New(fail.Refused, "cluster %s is protected: %s", name, what).
			Do("remove spec.protect from its document and apply that; then run the command again")
	}
	switch verb {
	case Destroy:
		return refused("it can't be destroyed")
	case "reset":
		return refused("it can't be reset")
	}
	if now, then := controlPlanes(doc), controlPlanes(was); now < then {
		return refused("it keeps its control-plane machines, and this would remove some of them")
	}
	return nil
}

func controlPlanes(doc *v1alpha1.Cluster) (n int) {
	for _, m := range doc.Machines() {
		if m.Role == v1alpha1.RoleControlPlane {
			n++
		}
	}
	return n
}
