//go:build openstack

package openstack

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	gopher "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/endpoints"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/regions"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/services"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// bareRegion has the test bed's administrator offer some of its services in a region of their own, as long as the test lives.
func bareRegion(ctx context.Context, t *testing.T, file, name string, kinds ...string) {
	t.Helper()
	auth, _, _, err := clouds.Parse(clouds.WithLocations(file), clouds.WithCloudName(bed.AdminCloud))
	testkit.Must(t, err)
	pc, err := gopher.AuthenticatedClient(ctx, auth)
	testkit.Must(t, err)
	keystone, err := gopher.NewIdentityV3(pc, gophercloud.EndpointOpts{Region: "RegionOne"})
	testkit.Must(t, err)
	offered, err := cloud.Pages(ctx, services.List(keystone, nil), services.ExtractServices)
	testkit.Must(t, err)
	there, err := cloud.Pages(ctx, endpoints.List(keystone, endpoints.ListOpts{RegionID: "RegionOne", Availability: gophercloud.AvailabilityPublic}), endpoints.ExtractEndpoints)
	testkit.Must(t, err)
	testkit.Must(t, removeRegion(ctx, keystone, name)) // which a killed test may have left
	_, err = regions.Create(ctx, keystone, regions.CreateOpts{ID: name}).Extract()
	testkit.Must(t, err)
	t.Cleanup(func() { testkit.Must(t, removeRegion(context.Background(), keystone, name)) })
	for _, e := range there {
		if !slices.ContainsFunc(offered, func(s services.Service) bool { return s.ID == e.ServiceID && slices.Contains(kinds, s.Type) }) {
			continue
		}
		_, err := endpoints.Create(ctx, keystone, endpoints.CreateOpts{
			Availability: gophercloud.AvailabilityPublic, Region: name, ServiceID: e.ServiceID, URL: e.URL, Name: e.Name,
		}).Extract()
		testkit.Must(t, err)
	}
}

// removeRegion removes a region with its endpoints, where it is.
func removeRegion(ctx context.Context, keystone *gophercloud.ServiceClient, name string) error {
	there, err := cloud.Pages(ctx, endpoints.List(keystone, endpoints.ListOpts{RegionID: name}), endpoints.ExtractEndpoints)
	if err != nil {
		return err
	}
	for _, e := range there {
		if err := endpoints.Delete(ctx, keystone, e.ID).ExtractErr(); err != nil && !cloud.Gone(err) {
			return err
		}
	}
	if err := regions.Delete(ctx, keystone, name).ExtractErr(); err != nil && !cloud.Gone(err) {
		return err
	}
	return nil
}

// TestRegionWithoutVolumes: the real services, but Cinder and Octavia, take machines through their lives.
func TestRegionWithoutVolumes(t *testing.T) {
	b := useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	const id, region = "t4-bare-0badcafe", "RegionBare"
	bareRegion(ctx, t, b.CloudsYAML(), region, "identity", "compute", "network", "image", "placement")
	spec := strings.NewReplacer(", rootVolumeGiB: 1", "", "10.77.", "10.90.", "v1.small", "m1.small", "      externalNetwork", "      region: "+region+"\n      externalNetwork").Replace(smallSpec)
	doc := testDocument(t, "t4-bare", spec)
	clean(t, doc, id)

	doc.Spec.Workers[0].Machine.RootVolumeGiB = new(5)
	p, _ := testProvider(t, doc, id, patient)
	_, err := p.Observe(ctx)
	testkit.Must(t, err)
	err = p.Preflight(ctx, wanted(doc))
	testkit.Fails(t, err, fail.Refused, "the cloud has no block-storage service, and pool w wants root volumes")

	doc.Spec.Workers[0].Machine.RootVolumeGiB = nil
	p, _ = testProvider(t, doc, id, patient)
	_, err = p.Observe(ctx)
	testkit.Must(t, err)
	testkit.Must(t, p.Preflight(ctx, wanted(doc)))
	t.Logf("%q", p.Warnings())
	if all := strings.Join(p.Warnings(), "\n"); !strings.Contains(all, "PersistentVolumeClaims will get no volumes") || !strings.Contains(all, "no load-balancer service") {
		t.Errorf("the plan's warnings are %q", all)
	}
	testkit.Must(t, apply(ctx, p))
	nothingToDo(ctx, t, doc, id)
	info, err := p.CloudInfo(ctx)
	if err != nil || p.NoVolumes() == "" || !info.NoLoadBalancers || info.VolumeZone != "" {
		t.Errorf("%+v, %q: %v", info, p.NoVolumes(), err)
	}
	if left, err := p.Leftovers(ctx); err != nil || len(left.Volumes)+len(left.LoadBalancers) > 0 {
		t.Errorf("%v: %v", left, err)
	}
	testkit.Must(t, destroy(ctx, p))
	isEmpty(ctx, t, doc, id)
}
