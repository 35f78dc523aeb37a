package wanted

import (
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider"
)

func TestMachineNamed(t *testing.T) {
	doc := groupsOf(t, 3, 2)
	doc.Metadata.Name = "cp" // the hardest one: the cluster's name begins a short name
	pool := doc.Spec.Workers[0].Name
	hosts := &v1alpha1.Cluster{Metadata: v1alpha1.Metadata{Name: "demo"}}
	hosts.Spec.Provider.Hosts = &v1alpha1.Hosts{Machines: []v1alpha1.HostMachine{
		{Name: "rack1", Role: v1alpha1.RoleControlPlane}, {Name: "demo-rack2", Role: v1alpha1.RoleWorker, Pool: "a"},
	}}
	hosts.Spec.Workers = []v1alpha1.Pool{{Name: "a"}}
	for _, c := range []struct {
		doc        *v1alpha1.Cluster
		name, want string
	}{
		{doc, "cp-cp-1", "cp-cp-1"},
		{doc, "cp-1", "cp-cp-1"},
		{doc, "cp-7", "cp-cp-7"}, // it need not exist
		{doc, pool + "-2", "cp-" + pool + "-2"},
		{doc, "cp", "cp"},
		{doc, "cp-0", "cp-0"},
		{doc, "cp-x", "cp-x"},
		{doc, "nope-1", "nope-1"},
		{doc, "", ""},
		{hosts, "rack1", "rack1"},
		{hosts, "rack2", "demo-rack2"},
		{hosts, "demo-rack2", "demo-rack2"},
		{hosts, "demo-rack1", "demo-rack1"},
		{hosts, "cp-1", "cp-1"}, // hosts have the names that the document gives them
	} {
		if got := MachineNamed(c.doc, c.name); got != c.want {
			t.Errorf("cluster %s: %q means %q, want %q", c.doc.Metadata.Name, c.name, got, c.want)
		}
	}
	if got := RoleOf(doc, "cp-gw-1"); got != provider.Gateway && got != "" {
		t.Errorf("the role of a gateway is %q", got)
	}
}
