package proof

import (
	"context"
	"encoding/json"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// WaitAddressPools waits until MetalLB's controller has counted the addresses of at least n pools, bounded by ctx, and returns the number of free addresses in
// pools that give them to any Service.
func WaitAddressPools(ctx context.Context, c *kube.Client, n int) (int64, error) {
	free := int64(0)
	err := answer.Poll(ctx, pause, func(ctx context.Context) error {
		raw, err := kube.Set(c).Discovery().RESTClient().Get().AbsPath("/apis/metallb.io/v1beta1/namespaces/metallb-system/ipaddresspools").DoRaw(ctx)
		if err != nil {
			return kube.APIError(ctx, err, "list the pools of addresses").At(c.Server())
		}
		var list struct {
			Items []struct {
				Spec   struct{ AutoAssign *bool }
				Status struct{ AssignedIPv4, AvailableIPv4 int64 }
			}
		}
		if err := json.Unmarshal(raw, &list); err != nil {
			return fail.Wrap(fail.Internal, err, "read the pools of addresses").At(c.Server())
		}
		counted := 0
		free = 0
		for _, p := range list.Items {
			if p.Status.AssignedIPv4+p.Status.AvailableIPv4 > 0 {
				counted++
			}
			if p.Spec.AutoAssign == nil || *p.Spec.AutoAssign {
				free += p.Status.AvailableIPv4
			}
		}
		if counted < n {
			return fail.New(fail.NotReady, "MetalLB's controller has taken up %d of %d pools", counted, n).At(c.Server()).
				Do("look at the log of Deployment metallb-system/metallb-controller")
		}
		return nil
	})
	return free, err
}
