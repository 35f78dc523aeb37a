package openstack

import (
	"net/http"
	"testing"
)

// TestSubnetOfAKilledRun: what a run had asked for when it was killed comes about after the next one has looked.
func TestSubnetOfAKilledRun(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	f.fault = func(_ int, call string) fault0 {
		if call == http.MethodPost+" /v2.0/subnets" {
			net := f.kinds["networks"][len(f.kinds["networks"])-1]
			f.makeNeutron("subnets", thing{
				"network_id": net["id"], "cidr": "10.77.0.0/24", "ip_version": 4, "name": net["name"], "description": net["description"],
			})
		}
		return fault0{}
	}
	if err := apply(t.Context(), fakeProvider(t, f, fakeDocument(t))); err != nil {
		t.Fatal(err)
	}
	if n := len(f.kinds["subnets"]); n != 1 {
		t.Errorf("%d subnets", n)
	}
}
