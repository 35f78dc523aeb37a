package openstack

import (
	"net/http"
	"strings"
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

// TestFloatingIPOfAKilledRun: the floating IP that a killed run had asked for comes about after the next one has looked, and Neutron refuses a second.
func TestFloatingIPOfAKilledRun(t *testing.T) {
	useFake(t)
	f := newFakeCloud()
	f.fault = func(_ int, call string) fault0 {
		if call != http.MethodPost+" /v2.0/floatingips" {
			return fault0{}
		}
		net := f.kinds["networks"][0]
		for _, n := range f.kinds["networks"] {
			if n["router:external"] == true {
				net = n
			}
		}
		port := f.kinds["ports"][0]
		for _, o := range f.kinds["ports"] {
			if strings.HasSuffix(o.str("name"), "cp-1") {
				port = o
			}
		}
		f.makeNeutron("floatingips", thing{"floating_network_id": net["id"], "port_id": port["id"], "description": port["description"]})
		return fault0{status: http.StatusConflict, text: "that fixed IP already has a floating IP on external network"}
	}
	if err := apply(t.Context(), fakeProvider(t, f, fakeDocument(t))); err != nil {
		t.Fatal(err)
	}
	if n := len(f.kinds["floatingips"]); n != 1 {
		t.Errorf("%d floating IPs", n)
	}
}
