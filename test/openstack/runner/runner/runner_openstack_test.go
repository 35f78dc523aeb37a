//go:build openstack

package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/listeners"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/monitors"
	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/pools"
	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

const bootTime = 5 * time.Minute // on a busy host

// testOptions returns options for one network, with machines separate from those of users.
func testOptions(t *testing.T, network string) Options {
	t.Helper()
	base, err := os.MkdirTemp("/var/tmp", "naupegos-runner-test-")
	testkit.Must(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(base); err != nil {
			t.Error(err)
		}
	})
	o, err := besideOthers(filepath.Join(base, "state"), network, filepath.Join(base, "machines"))
	testkit.Must(t, err)
	o.Machines.Timeouts.Boot = bootTime
	return o
}

// TestServersAreReal creates, changes and removes two servers, a floating IP and a load balancer.
func TestServersAreReal(t *testing.T) {
	testkit.OnlyFull(t, "TestOpenStack has whole clusters of such servers")
	x := newTenant(t, "10.94.7.0/24")
	o := testOptions(t, x.network)
	start(t, o)
	one, two := x.boot(x.name+"-one"), x.boot(x.name+"-two")
	port, address := x.port(one.ID)
	public := x.floatingIP(port)
	key := x.hostKey(one.ID)
	var client *ssh.Client
	x.await("SSH through the floating IP", bootTime, func() (err error) {
		client, err = sshtest.Login{Key: x.signer, HostKey: key}.Dial(public)
		return err
	})
	defer client.Close()
	if got := x.ssh(client, "hostname; ip -4 -o addr show host0"); !strings.HasPrefix(got, one.Name+"\n") || !strings.Contains(got, address+"/24") {
		t.Errorf("the machine is not what the server is: %s", got)
	}
	if got := x.ssh(client, "cat /var/lib/cloud/data/instance-id"); got != one.ID {
		t.Errorf("cloud-init's instance ID is %s, want %s", got, one.ID)
	}
	x.checkMetadata(client, one)
	x.await("the floating IP from another machine of the network", bootTime, func() error {
		other, err := x.direct(two.ID)
		if err != nil {
			return err
		}
		defer other.Close()
		got, err := sshtest.Run(other, "curl -sS -m 5 http://"+public+"/")
		return expect(got, err, one.Name)
	})
	vip, publicVIP := x.balance(one, two)
	both := []string{one.Name, two.Name}
	for _, at := range []string{vip, publicVIP} {
		x.await("both members behind "+at, bootTime, func() error { return x.answers(at, both...) })
	}
	if got, err := sshtest.Run(client, "curl -sS -m 5 http://"+publicVIP+"/"); err != nil || !strings.HasPrefix(got, x.name) {
		t.Errorf("the load balancer's floating IP from a machine: %q %v", got, err)
	}
	testkit.Must(t, servers.Stop(t.Context(), x.cloud.compute, two.ID).ExtractErr())
	x.await("a stopped member to be out", bootTime, func() error { return x.answers(publicVIP, one.Name) })
	testkit.Must(t, servers.Start(t.Context(), x.cloud.compute, two.ID).ExtractErr())
	x.await("it to be back", bootTime, func() error { // runcmd starts its web server at the first boot only
		x.webAgain(two.ID)
		return x.answers(publicVIP, both...)
	})
	x.reboot(one.ID, client)
	ids := []string{clusterID(x.network)[3:], o.short()}
	if len(onHost(t, ids)) == 0 {
		t.Fatal("onHost does not find existing objects, so it would not find leftovers")
	}
	x.destroy()
	x.await("nothing to be left", bootTime, func() error {
		if left := onHost(t, ids); len(left) > 0 {
			return fmt.Errorf("still there:\n%s", strings.Join(left, "\n"))
		}
		return nil
	})
}

var hostKeys = regexp.MustCompile(`(?s)-----BEGIN SSH HOST KEY KEYS-----(.*?)-----END SSH HOST KEY KEYS-----`)

// hostKey reads the server's SSH host key from its console, as Nova serves it.
func (x *tenant) hostKey(id string) (key ssh.PublicKey) {
	x.t.Helper()
	x.await("the SSH host key on the console", bootTime, func() error {
		text, err := servers.ShowConsoleOutput(x.t.Context(), x.cloud.compute, id, servers.ShowConsoleOutputOpts{}).Extract()
		if err != nil {
			return err
		}
		found := hostKeys.FindStringSubmatch(text)
		if found == nil {
			return fmt.Errorf("no host keys among %d bytes: %.2000s", len(text), text)
		}
		key, _, _, _, err = ssh.ParseAuthorizedKey([]byte(strings.TrimSpace(found[1])))
		return err
	})
	return key
}

func (x *tenant) ssh(c *ssh.Client, command string) string {
	x.t.Helper()
	out, err := sshtest.Run(c, command)
	if err != nil {
		x.t.Fatalf("%s: %v: %s", command, err, out)
	}
	return out
}

func expect(got string, err error, want string) error {
	if err == nil && got != want {
		err = fmt.Errorf("answer %q, want %q", got, want)
	}
	return err
}

// checkMetadata queries the metadata service from inside a server, also with the ID of another instance.
func (x *tenant) checkMetadata(c *ssh.Client, s *servers.Server) {
	x.t.Helper()
	const ask = "curl -sS -m 10 -H 'X-Instance-ID: 00000000-0000-4000-8000-000000000000' http://169.254.169.254/"
	if got := x.ssh(c, ask+"openstack/latest/meta_data.json"); !strings.Contains(got, s.ID) {
		x.t.Errorf("meta_data.json is not this server's: %s", got)
	}
	if got := x.ssh(c, ask+"openstack/latest/user_data"); !strings.HasPrefix(got, "#cloud-config") {
		x.t.Errorf("user_data: %s", got)
	}
}

// balance creates a load balancer for the servers and returns its address and its floating IP.
func (x *tenant) balance(members ...*servers.Server) (vip, public string) {
	x.t.Helper()
	ctx, t := x.t.Context(), x.t
	var ms []pools.CreateMemberOpts
	for _, s := range members {
		_, address := x.port(s.ID)
		ms = append(ms, pools.CreateMemberOpts{Address: address, ProtocolPort: 80, SubnetID: x.subnet})
	}
	lb, err := loadbalancers.Create(ctx, x.cloud.balance, loadbalancers.CreateOpts{
		Name: x.name, VipSubnetID: x.subnet,
		Listeners: []listeners.CreateOpts{{
			Name: x.name, Protocol: listeners.ProtocolTCP, ProtocolPort: 80,
			DefaultPool: &pools.CreateOpts{
				Name: x.name, Protocol: pools.ProtocolTCP, LBMethod: pools.LBMethodRoundRobin, Members: ms,
				Monitor: &monitors.CreateOpts{Type: monitors.TypeHTTP, Delay: 1, Timeout: 1, MaxRetries: 1, MaxRetriesDown: 2, URLPath: "/"},
			},
		}},
	}).Extract()
	testkit.Must(t, err)
	x.later(func(ctx context.Context) error {
		if err := loadbalancers.Delete(ctx, x.cloud.balance, lb.ID, loadbalancers.DeleteOpts{Cascade: true}).ExtractErr(); err != nil {
			return err
		}
		for {
			if _, err := loadbalancers.Get(ctx, x.cloud.balance, lb.ID).Extract(); err != nil {
				return err
			}
			time.Sleep(300 * time.Millisecond)
		}
	})
	x.await("the load balancer to be ACTIVE", 5*time.Minute, func() error {
		lb, err = loadbalancers.Get(ctx, x.cloud.balance, lb.ID).Extract()
		if err == nil && lb.ProvisioningStatus != "ACTIVE" {
			err = errors.New(lb.ProvisioningStatus)
		}
		return err
	})
	return lb.VipAddress, x.floatingIP(lb.VipPortID)
}

// answers makes ten requests, each on a new connection. Exactly the wanted servers must answer.
func (x *tenant) answers(at string, want ...string) error {
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	got := map[string]int{}
	for range 10 {
		resp, err := client.Get("http://" + at + "/")
		if err != nil {
			return err
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			return err
		}
		got[string(body)]++
	}
	for _, w := range want {
		if got[w] == 0 {
			return fmt.Errorf("answers come from %v, not from %s", got, w)
		}
	}
	if len(got) != len(want) {
		return fmt.Errorf("answers come from %v, want only %v", got, want)
	}
	return nil
}

// direct logs in to a server's fixed address, which this host can reach.
func (x *tenant) direct(id string) (*ssh.Client, error) {
	_, address := x.port(id)
	return sshtest.Login{Key: x.signer, Timeout: 2 * time.Second}.Dial(address)
}

// webAgain restarts a server's web server, because runcmd runs only at the first boot.
func (x *tenant) webAgain(id string) {
	c, err := x.direct(id)
	if err != nil {
		return // not reachable yet
	}
	defer c.Close()
	if out, err := sshtest.Run(c, "systemctl is-active -q web || systemd-run --unit=web haproxy -db -f /etc/web.cfg"); err != nil {
		x.t.Logf("start the web server: %v: %s", err, out)
	}
}

// reboot reboots a server through Nova and waits until its machine has booted again.
func (x *tenant) reboot(id string, c *ssh.Client) {
	x.t.Helper()
	const stamp = "systemctl show -p UserspaceTimestampMonotonic --value"
	before := x.ssh(c, stamp)
	testkit.Must(x.t, servers.Reboot(x.t.Context(), x.cloud.compute, id, servers.RebootOpts{Type: servers.SoftReboot}).ExtractErr())
	x.await("the machine to have rebooted", bootTime, func() error {
		again, err := x.direct(id)
		if err != nil {
			return err
		}
		defer again.Close()
		now, err := sshtest.Run(again, stamp)
		if err == nil && now == before {
			err = errors.New("still the former boot")
		}
		return err
	})
}
