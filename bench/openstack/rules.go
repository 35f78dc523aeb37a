package main

import (
	"fmt"
	"strconv"
)

// rule is one rule of a role's security group, in the form of OpenTofu's variable.
type rule struct {
	Role      string `json:"role"`
	Direction string `json:"direction"`
	EtherType string `json:"ethertype"`
	Protocol  string `json:"protocol,omitempty"`
	First     int    `json:"first,omitempty"`
	Last      int    `json:"last,omitempty"`
	CIDR      string `json:"cidr,omitempty"`
	From      string `json:"from,omitempty"` // role
}

// String returns a text that identifies the rule.
func (r rule) String() string {
	return fmt.Sprintf("%s %s %s %s %d-%d from %q %q", r.Role, r.Direction, r.EtherType, r.Protocol, r.First, r.Last, r.CIDR, r.From)
}

// rules lists the rules of all roles. The bench reads them from the cloud after naupegos has created them and passes them to OpenTofu: a table
// here would only repeat the provider's decisions.
func (c contents) rules() []rule {
	names := map[string]string{}
	for _, g := range c["security group"] {
		names[text(g, "id")] = role(text(g, "name"))
	}
	var out []rule
	for _, g := range c["security group"] {
		all, _ := g["security_group_rules"].([]any)
		for _, one := range all {
			o, _ := one.(object)
			r := rule{
				Role: role(text(g, "name")), Direction: text(o, "direction"), EtherType: text(o, "ethertype"), Protocol: text(o, "protocol"),
				CIDR: text(o, "remote_ip_prefix"), From: names[text(o, "remote_group_id")],
			}
			r.First, _ = strconv.Atoi(text(o, "port_range_min")) // 0 is not a port
			r.Last, _ = strconv.Atoi(text(o, "port_range_max"))  // 0 is not a port
			out = append(out, r)
		}
	}
	return out
}

// byKey returns the rules in the form for OpenTofu's for_each, without the default rules of Neutron's groups.
func byKey(all []rule) map[string]rule {
	out := map[string]rule{}
	for _, r := range all {
		if r.Direction == "egress" && r.Protocol == "" && r.CIDR == "" && r.From == "" {
			continue
		}
		out[r.String()] = r
	}
	return out
}
