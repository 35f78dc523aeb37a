package access

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

var wildcards = regexp.MustCompile(`\*\*|\*`)

// admits reports whether a rule is for a call, as _path_matches of keystonemiddleware does.
func admits(r applicationcredentials.AccessRule, service, method, path string) bool {
	pattern := wildcards.ReplaceAllStringFunc(r.Path, func(w string) string { return map[string]string{"*": `[^\/]+`, "**": ".*"}[w] })
	return r.Service == service && r.Method == method && regexp.MustCompile("^"+pattern+"$").MatchString(path)
}

// everything is the access of a cluster in a cloud whose services are where devstack puts them.
func everything() (out []applicationcredentials.AccessRule) {
	out = append(out, Compute().Rules([]cloud.Place{{Type: "compute", Path: "/compute/v2.1"}})...)
	out = append(out, Network().Rules([]cloud.Place{{Type: "network", Path: "/networking"}})...)
	out = append(out, BlockStorage().Rules([]cloud.Place{{Type: "volumev3", Path: "/volume/v3/p"}, {Type: "block-storage", Path: "/volume/v3/p"}})...)
	out = append(out, DNS().Rules([]cloud.Place{{Type: "dns", Path: "/dns"}, {Type: "dns", Path: "/dns/v2"}})...)
	return append(out, LoadBalancer().Rules([]cloud.Place{{Type: "load-balancer", Path: "/load-balancer"}})...)
}

// TestAdmitted: the rules admit all calls of the cluster's programs, and none with which it could take over the project.
func TestAdmitted(t *testing.T) {
	for _, x := range []struct {
		want  bool
		calls string
	}{
		{true, `compute GET /compute/v2.1/servers/detail
			compute GET /compute/v2.1/servers/s1
			compute GET /compute/v2.1/flavors/f1
			compute POST /compute/v2.1/servers/s1/os-volume_attachments
			compute DELETE /compute/v2.1/servers/s1/os-volume_attachments/v1
			network GET /networking/v2.0/ports
			network GET /networking/v2.0/networks/n1
			network PUT /networking/v2.0/floatingips/f1
			network GET /networking/v2.0/security-groups
			volumev3 GET /volume/v3/p/volumes/detail
			block-storage POST /volume/v3/p/volumes
			volumev3 POST /volume/v3/p/volumes/v1/action
			volumev3 GET /volume/v3/p/snapshots
			volumev3 DELETE /volume/v3/p/backups/b1
			dns GET /dns/v2/zones
			dns POST /dns/v2/zones/z1/recordsets
			dns DELETE /dns/v2/zones/z1/recordsets/r1
			load-balancer GET /load-balancer/
			load-balancer PUT /load-balancer/v2.0/lbaas/pools/p1/members
			load-balancer DELETE /load-balancer/v2.0/lbaas/loadbalancers/l1`},
		{false, `compute POST /compute/v2.1/servers
			compute DELETE /compute/v2.1/servers/s1
			compute POST /compute/v2.1/servers/s1/action
			compute GET /compute/v2.1/servers/s1/os-server-password
			compute POST /compute/v2.1/os-keypairs
			compute GET /v2.1/servers/detail
			network POST /networking/v2.0/networks
			network POST /networking/v2.0/subnets
			network PUT /networking/v2.0/ports/p1
			network PUT /networking/v2.0/routers/r1
			network POST /networking/v2.0/security-groups
			network POST /networking/v2.0/security-group-rules
			volumev3 POST /volume/v3/p/os-volume-transfer
			volumev3 POST /volume/v3/other/volumes
			dns POST /dns/v2/zones
			dns DELETE /dns/v2/zones/z1
			dns PATCH /dns/v2/zones/z1
			dns GET /dns/v2/tsigkeys
			image GET /image/v2/images
			key-manager GET /key-manager/v1/secrets
			object-store GET /v1/AUTH_p
			identity GET /identity/v3/users/u/application_credentials`},
	} {
		for line := range strings.Lines(x.calls) {
			call := strings.Fields(line)
			if got := slices.ContainsFunc(everything(), func(r applicationcredentials.AccessRule) bool { return admits(r, call[0], call[1], call[2]) }); got != x.want {
				t.Errorf("%v is admitted: %t", call, got)
			}
		}
	}
}

// TestRules: each rule occurs once, and Keystone can store it; a version in the service's address is not repeated.
func TestRules(t *testing.T) {
	all := everything()
	for i, r := range all {
		if slices.Contains(all[:i], r) || len(r.Path) > 128 || !strings.HasPrefix(r.Path, "/") {
			t.Errorf("%+v", r)
		}
	}
	twice := LoadBalancer().Rules([]cloud.Place{{Type: "load-balancer", Path: "/v2.0"}, {Type: "load-balancer", Path: ""}})
	once := LoadBalancer().Rules([]cloud.Place{{Type: "load-balancer", Path: ""}})
	if !slices.Equal(twice, once) {
		t.Errorf("%v", twice)
	}
	for endpoint, want := range map[string]string{
		"http://o:9876/": "http://o:9876/v2.0/lbaas/loadbalancers?limit=1", "http://o/load-balancer/v2.0/": "http://o/load-balancer/v2.0/lbaas/loadbalancers?limit=1",
	} {
		if got := LoadBalancer().ProbeURL(endpoint); got != want {
			t.Errorf("%s: %s", endpoint, got)
		}
	}
	for _, s := range []Service{Compute(), Network(), BlockStorage(), LoadBalancer(), DNS()} {
		path, _, _ := strings.Cut(s.Probe, "?")
		if !slices.ContainsFunc(s.Rules([]cloud.Place{{Type: "x"}}), func(r applicationcredentials.AccessRule) bool { return admits(r, "x", "GET", path) }) {
			t.Errorf("the probe of %s is refused", s.Name)
		}
	}
}
