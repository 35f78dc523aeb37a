package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// twoGroups is Neutron's answer for two groups. A rule of one group admits the other.
const twoGroups = `{"security group": [
 {"id": "a", "name": "bench-1.control-plane", "security_group_rules": [
  {"direction": "egress", "ethertype": "IPv4", "protocol": null, "port_range_min": null, "remote_ip_prefix": null, "remote_group_id": null},
  {"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 22, "port_range_max": 22, "remote_ip_prefix": "0.0.0.0/0"},
  {"direction": "ingress", "ethertype": "IPv4", "protocol": "tcp", "port_range_min": 10250, "port_range_max": 10250, "remote_group_id": "b"}]},
 {"id": "b", "name": "bench-1.worker", "security_group_rules": []}],
 "port": [{"device_owner": "compute:az1", "security_groups": ["b"]}, {"device_owner": "network:router_interface", "security_groups": []}],
 "server": [{"status": "ACTIVE", "key_name": "k", "os-extended-volumes:volumes_attached": [{"id": "v"}]}]}`

func twoGroupsContents(t *testing.T) contents {
	t.Helper()
	var c contents
	if err := json.Unmarshal([]byte(twoGroups), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRulesNameRoles(t *testing.T) {
	all := twoGroupsContents(t).rules()
	if len(all) != 3 {
		t.Fatalf("%d rules, want 3: %v", len(all), all)
	}
	want := rule{Role: "control-plane", Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", First: 10250, Last: 10250, From: "worker"}
	if all[2] != want {
		t.Errorf("got %v, want %v", all[2], want)
	}
	keyed := byKey(all)
	if len(keyed) != 2 || keyed[want.String()] != want {
		t.Errorf("for OpenTofu: %v; want all except Neutron's default rule", keyed)
	}
}

func TestListingsDiffer(t *testing.T) {
	a, b := twoGroupsContents(t).describe(), twoGroupsContents(t).describe()
	if d := a.diff("a", b, "b"); len(d) > 0 {
		t.Errorf("equal content differs: %v", d)
	}
	for _, want := range []string{"port: compute [worker]", "port: network:router_interface", "server: ACTIVE, 1 volumes, keypair true"} {
		if a[want] != 1 {
			t.Errorf("%q is not in %v", want, a)
		}
	}
	c := twoGroupsContents(t)
	c["server"][0]["status"] = "ERROR"
	c["security group"][0]["security_group_rules"].([]any)[1].(object)["remote_ip_prefix"] = "10.0.0.0/8"
	d := strings.Join(a.diff("a", c.describe(), "b"), "\n")
	for _, want := range []string{"server: ACTIVE, 1 volumes, keypair true: 1 by a, 0 by b", `22-22 from "10.0.0.0/8" "": 0 by a, 1 by b`} {
		if !strings.Contains(d, want) {
			t.Errorf("%q is not in\n%s", want, d)
		}
	}
	if got := a.kinds(); got != "2 port, 3 rule, 2 security group, 1 server" {
		t.Errorf("kinds: %s", got)
	}
}
