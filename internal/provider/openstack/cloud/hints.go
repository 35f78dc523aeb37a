package cloud

import (
	"net/http"
	"regexp"

	"github.com/naupegos/naupegos/internal/fail"
)

// known lists refusals whose words reveal the problem, in matching order; the status alone would lead to a wrong hint.
var known = []struct {
	status int
	words  *regexp.Regexp
	kind   fail.Kind
	hint   string
}{
	{http.StatusForbidden, regexp.MustCompile(`(?i)quota|maximum number of|limit.*exceeded`), fail.Refused, quotaHint},
	{http.StatusConflict, regexp.MustCompile(`(?i)quota|maximum number of|limit.*exceeded`), fail.Refused, quotaHint},
	{http.StatusConflict, regexp.MustCompile(`(?i)port security must be enabled`), fail.Refused,
		"the network has port security switched off: have its owner run `openstack network set --enable-port-security`, or name another network"},
	{http.StatusConflict, regexp.MustCompile(`(?i)no more ip addresses available`), fail.Refused,
		"the network's addresses are used up: free some, or have its owner extend the subnet's pools"},
	{http.StatusNotFound, regexp.MustCompile(`(?i)external network .* is not reachable`), fail.Refused,
		"the subnet's router does not lead to that network: attach the subnet to a router with that external gateway, or name its network as externalNetwork"},
	{http.StatusForbidden, regexp.MustCompile(`(create|update)_port`), fail.Refused,
		"the network is another project's, and its policy does not let you make such ports: use a network of your own project, or have its owner make them possible"},
	{http.StatusForbidden, regexp.MustCompile(`external_gateway_info`), fail.Refused,
		"the policy does not let you choose this way out: name another externalNetwork, or have an administrator make a router, and name it as network.router"},
	{http.StatusForbidden, regexp.MustCompile(`create_floatingip`), fail.Refused,
		"the policy lets you take no floating IPs there: name another externalNetwork, or want none"},
	{http.StatusBadRequest, regexp.MustCompile(`(?i)availability zone is not available`), fail.Refused, "name one of `openstack availability zone list --compute`"},
	{http.StatusBadRequest, regexp.MustCompile(`(?i)disk is too small for requested image`), fail.Refused, "choose a flavor with a larger disk, or set rootVolumeGiB"},
	{http.StatusBadRequest, regexp.MustCompile(`(?i)keypair data is invalid`), fail.Refused, "this Nova takes no keys of that type"},
	{http.StatusForbidden, regexp.MustCompile(`.*`), fail.Refused, "these credentials lack a role that this needs"},
}

const quotaHint = "ask for a larger quota, or free some of it; naupegos plan reports how much is needed"

// hinted returns the known kind and hint for a refusal's words.
func hinted(f *Fault) (kind fail.Kind, hint string, ok bool) {
	for _, k := range known {
		if k.status == f.Status && k.words.MatchString(f.Text) {
			return k.kind, k.hint, true
		}
	}
	return fail.Internal, "", false
}
