package cloud

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/fail"
)

// TestHints: each refusal that services were seen to give has its kind, and a hint that is about it.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		status int
		text   string
		kind   fail.Kind
		hint   string
	}{
		{409, "Port security must be enabled and port must have an IP address in order to use security groups.", fail.Refused, "--enable-port-security"},
		{403, "((rule:create_port and rule:create_port:allowed_address_pairs) and rule:create_port:allowed_address_pairs:ip_address) is disallowed by policy", fail.Refused, "another project's"},
		{403, "rule:update_port:fixed_ips is disallowed by policy", fail.Refused, "another project's"},
		{409, "No more IP addresses available on network 0a0a0a0a-0000-1000-8000-000000000001.", fail.Refused, "used up"},
		{404, "External network 0a0a is not reachable from subnet 0b0b.  Therefore, cannot associate Port 0c0c with a Floating IP.", fail.Refused, "does not lead to that network"},
		{409, "Quota exceeded for resources: ['floatingip'].", fail.Refused, "larger quota"},
		{409, "Quota exceeded for resources: ['router'].", fail.Refused, "larger quota"},
		{403, "rule:create_network is disallowed by policy", fail.Refused, "lack a role"},
		{403, "((rule:create_router and rule:create_router:external_gateway_info) and rule:create_router:external_gateway_info:network_id) is disallowed by policy", fail.Refused, "network.router"},
		{403, "rule:create_floatingip is disallowed by policy", fail.Refused, "no floating IPs there"},
		{403, "Quota exceeded for cores, instances: Requested 4, 1, but already used 16, 10 of 16, 10 cores, instances", fail.Refused, "larger quota"},
		{400, "Flavor's disk is too small for requested image. Flavor disk is 5368709120 bytes, image is 10737418240 bytes.", fail.Refused, "rootVolumeGiB"},
		{400, "The requested availability zone is not available", fail.Refused, "availability zone list"},
		{400, "Keypair data is invalid: failed to generate fingerprint", fail.Refused, "keys of that type"},
		{413, "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota.", fail.Refused, "larger quota"},
		{403, "Policy doesn't allow os_compute_api:os-server-groups:create to be performed.", fail.Refused, "lack a role"},
		{409, "Load Balancer x is immutable and cannot be updated.", fail.NotReady, ""},
		{409, "Port 1 is still in use", fail.Conflict, ""},
		{404, "Instance could not be found", fail.NotFound, ""},
		{406, "Version 2.79 is not supported by the API", fail.Refused, "Train"},
		{401, "The request you have made requires authentication.", fail.Unauthorized, ""},
	} {
		kind, cause, hint := Classify(gophercloud.ErrUnexpectedResponseCode{Actual: c.status, Body: []byte(fmt.Sprintf(`{"NeutronError":{"message":%q}}`, c.text))})
		if kind != c.kind || !strings.Contains(hint, c.hint) || c.hint == "" && hint != "" {
			t.Errorf("%d %s: %v, %q", c.status, c.text, kind, hint)
		}
		if !strings.Contains(cause.Error(), strings.Join(strings.Fields(c.text), " ")) {
			t.Errorf("the cloud's words are lost: %v", cause)
		}
	}
}
