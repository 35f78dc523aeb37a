package leftovers

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

func TestServicesOfALoadBalancer(t *testing.T) {
	n := marks.Names{ID: "t4-0000abcd"}
	for name, want := range map[string]string{
		"kube_service_t4-0000abcd_shop_web": "shop/web", "kube_service_t4-0000abcd0_shop_web": "", "kube_service_t4_0000abcd_web": "",
		"t4-0000abcd.api": "", "my kube_service_t4-0000abcd_shop_web": "",
	} {
		if got := servicesOf(n, loadbalancers.LoadBalancer{Name: name}); strings.Join(got, " ") != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	shared := loadbalancers.LoadBalancer{Name: "shared", Tags: []string{"kube_service_t4-0000abcd_shop_web", "kube_service_t4-0000abcd_shop_api"}}
	if got := servicesOf(n, shared); strings.Join(got, " ") != "shop/web shop/api" {
		t.Errorf("a shared load balancer: %v", got)
	}
}
