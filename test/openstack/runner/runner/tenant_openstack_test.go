//go:build openstack

package runner

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/floatingips"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/layer3/routers"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/networks"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/ports"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"
	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// tenant is an ordinary user of the cloud with a network of its own. The test's end removes everything that it creates.
type tenant struct {
	t       *testing.T
	name    string
	cloud   *cloud
	signer  ssh.Signer
	network string
	subnet  string
	public  string // the external network
	undo    []func() error
}

// bedOptions returns the options of the bed for these tests.
func bedOptions(t *testing.T) Options {
	t.Helper()
	o := Options{Pace: time.Second}
	if err := o.setDefaults(); err != nil {
		t.Fatal(err)
	}
	return o
}

func newTenant(t *testing.T, cidr string) *tenant {
	t.Helper()
	o := bedOptions(t)
	o.Cloud = "naupegos"
	c, err := connect(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	c.compute.HTTPClient.Timeout = 5 * time.Minute // all calls share it; other tests may load the bed
	var id [3]byte
	_, err = rand.Read(id[:])
	testkit.Must(t, err)
	x := &tenant{t: t, name: TestPrefix + hex.EncodeToString(id[:]), cloud: c, signer: sshtest.NewKey(t)}
	t.Cleanup(x.destroy)
	x.makeNetwork(cidr)
	return x
}

// later registers a cleanup; cleanups run in reverse order.
func (x *tenant) later(f func(context.Context) error) {
	x.undo = append(x.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
		defer cancel()
		for {
			err := f(ctx)
			if err == nil || gophercloud.ResponseCodeIs(err, 404) {
				return nil
			}
			if !gophercloud.ResponseCodeIs(err, 409) || ctx.Err() != nil {
				return err
			}
			time.Sleep(time.Second) // still in use or pending
		}
	})
}

func (x *tenant) destroy() {
	for len(x.undo) > 0 {
		last := len(x.undo) - 1
		if err := x.undo[last](); err != nil {
			x.t.Errorf("clean up: %v", err)
		}
		x.undo = x.undo[:last]
	}
}

func (x *tenant) makeNetwork(cidr string) {
	ctx, t := x.t.Context(), x.t
	n, err := networks.Create(ctx, x.cloud.network, networks.CreateOpts{Name: x.name}).Extract()
	testkit.Must(t, err)
	x.network = n.ID
	x.later(func(ctx context.Context) error { return networks.Delete(ctx, x.cloud.network, n.ID).ExtractErr() })
	s, err := subnets.Create(ctx, x.cloud.network, subnets.CreateOpts{NetworkID: n.ID, CIDR: cidr, IPVersion: 4, Name: x.name}).Extract()
	testkit.Must(t, err)
	x.subnet = s.ID
	page, err := networks.List(x.cloud.network, networks.ListOpts{Name: "public"}).AllPages(ctx)
	testkit.Must(t, err)
	all, err := networks.ExtractNetworks(page)
	testkit.Must(t, err)
	if len(all) != 1 {
		t.Fatalf("%d networks are named public", len(all))
	}
	x.public = all[0].ID
	r, err := routers.Create(ctx, x.cloud.network, routers.CreateOpts{Name: x.name, GatewayInfo: &routers.GatewayInfo{NetworkID: x.public}}).Extract()
	testkit.Must(t, err)
	x.later(func(ctx context.Context) error { return routers.Delete(ctx, x.cloud.network, r.ID).ExtractErr() })
	_, err = routers.AddInterface(ctx, x.cloud.network, r.ID, routers.AddInterfaceOpts{SubnetID: s.ID}).Extract()
	testkit.Must(t, err)
	x.later(func(ctx context.Context) error {
		return routers.RemoveInterface(ctx, x.cloud.network, r.ID, routers.RemoveInterfaceOpts{SubnetID: s.ID}).Err
	})
}

// boot creates a server that serves its name over HTTP, and waits until Nova reports it as running.
func (x *tenant) boot(name string) *servers.Server {
	x.t.Helper()
	ctx, t := x.t.Context(), x.t
	s, err := servers.Create(ctx, x.cloud.compute, servers.CreateOpts{
		Name: name, ImageRef: x.image("debian-12"), FlavorRef: x.flavor("m1.small"), UserData: []byte(x.userData(name)),
		Networks: []servers.Network{{UUID: x.network}},
	}, nil).Extract()
	testkit.Must(t, err)
	x.later(func(ctx context.Context) error { return x.deleteServer(ctx, s.ID) })
	x.await("server "+name+" to be ACTIVE", 5*time.Minute, func() error {
		if s, err = servers.Get(ctx, x.cloud.compute, s.ID).Extract(); err == nil && s.Status != "ACTIVE" {
			err = errors.New(s.Status)
		}
		return err
	})
	return s
}

func (x *tenant) deleteServer(ctx context.Context, id string) error {
	if err := servers.Delete(ctx, x.cloud.compute, id).ExtractErr(); err != nil {
		return err
	}
	for {
		_, err := servers.Get(ctx, x.cloud.compute, id).Extract()
		if err != nil {
			return err // 404 means deleted
		}
		time.Sleep(300 * time.Millisecond)
	}
}

func (x *tenant) userData(name string) string {
	return fmt.Sprintf(`#cloud-config
disable_root: false
users:
  - name: root
    ssh_authorized_keys: [%q]
write_files:
  - path: /etc/web.cfg
    content: |
      defaults
        mode http
        timeout client 5s
      frontend web
        bind :80
        http-request return status 200 content-type text/plain string %s
runcmd:
  - [systemd-run, --unit=web, haproxy, -db, -f, /etc/web.cfg]
`, sshtest.AuthorizedKey(x.signer.PublicKey()), name)
}

func (x *tenant) image(name string) string {
	page, err := images.List(x.cloud.image, images.ListOpts{Name: name}).AllPages(x.t.Context())
	testkit.Must(x.t, err)
	all, err := images.ExtractImages(page)
	testkit.Must(x.t, err)
	if len(all) == 0 {
		x.t.Fatalf("no image %s", name)
	}
	return all[0].ID
}

func (x *tenant) flavor(name string) string {
	page, err := flavors.ListDetail(x.cloud.compute, nil).AllPages(x.t.Context())
	testkit.Must(x.t, err)
	all, err := flavors.ExtractFlavors(page)
	testkit.Must(x.t, err)
	for _, f := range all {
		if f.Name == name {
			return f.ID
		}
	}
	x.t.Fatalf("no flavor %s", name)
	return ""
}

// port returns the ID and the address of a server's port.
func (x *tenant) port(server string) (id, address string) {
	page, err := ports.List(x.cloud.network, ports.ListOpts{DeviceID: server}).AllPages(x.t.Context())
	testkit.Must(x.t, err)
	all, err := ports.ExtractPorts(page)
	testkit.Must(x.t, err)
	if len(all) != 1 || len(all[0].FixedIPs) != 1 {
		x.t.Fatalf("server %s has the ports %v", server, all)
	}
	return all[0].ID, all[0].FixedIPs[0].IPAddress
}

func (x *tenant) floatingIP(port string) string {
	f, err := floatingips.Create(x.t.Context(), x.cloud.network, floatingips.CreateOpts{FloatingNetworkID: x.public, PortID: port}).Extract()
	testkit.Must(x.t, err)
	x.later(func(ctx context.Context) error { return floatingips.Delete(ctx, x.cloud.network, f.ID).ExtractErr() })
	return f.FloatingIP
}

func (x *tenant) await(what string, atMost time.Duration, f func() error) {
	x.t.Helper()
	await(x.t, atMost, what, f)
}
