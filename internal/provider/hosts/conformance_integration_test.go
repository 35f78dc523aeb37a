//go:build integration

package hosts

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/provider/local/localtest"
	"github.com/naupegos/naupegos/internal/provider/providertest"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// TestMain lets the test binary supervise the machines that are hosts here.
func TestMain(m *testing.M) {
	localtest.SuperviseIfAsked()
	os.Exit(m.Run())
}

// TestConformanceOnHosts runs the conformance suite on real machines that serve as hosts. The login user is not root, and
// all but the gateway are reached through it.
func TestConformanceOnHosts(t *testing.T) {
	testkit.Must(t, local.MakeBase(t.Context(), "", silent{}))
	if !testkit.OwnNetwork(t) {
		return
	}
	f := newHosts(t, "gw-1", "cp-1", "w-1")
	doc := f.document()
	want := provider.Wanted{VIP: true}
	for _, m := range doc.Machines() {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: m.Name, Role: provider.Role(m.Role), Pool: m.Pool, Index: m.Index})
	}
	known := &memory{}
	p := func(t testing.TB) provider.Provider { // with separate connections, like each run of the command
		d := remote.NewDialer([]remote.Key{f.key}, remote.Options{ConnectTimeout: 20 * time.Second}) // sshd on a busy host is slow to greet
		t.Cleanup(func() { testkit.Must(t, d.Close()) })
		return New(doc, d, known)
	}
	providertest.Run(t, providertest.Place{
		Provider: p, Want: want,
		Things: func(t testing.TB) []string { return f.states(t) },
		Off:    func(t testing.TB, machine string) { testkit.Must(t, f.p.Power(t.Context(), machine, "kill")) },
		On: func(t testing.TB, machine string) {
			testkit.Must(t, f.p.Power(t.Context(), machine, "on"))
			f.usable(t, machine)
		},
		Login: f.login,
	})
}

// silent is a Progress that discards everything.
type silent struct{}

// Status says nothing.
func (silent) Status(string, ...any) {}

// someHosts is a set of machines on this host that serve as hosts.
type someHosts struct {
	*testing.T
	p   *local.Provider
	key ssh.Signer
}

// user may log in to the hosts, and become root.
const user = "keeper"

// newHosts boots machines of these names in this network namespace, and permits the user to log in.
func newHosts(t *testing.T, names ...string) *someHosts {
	t.Helper()
	base := "/var/tmp" // not every file system supports overlays
	if dir := os.Getenv("NAUPEGOS_TEST_DIR"); dir != "" {
		base = dir
	}
	root := testkit.Value(os.MkdirTemp(base, "naupegos-hosts-test-"))(t)
	t.Cleanup(func() { testkit.Must(t, os.RemoveAll(root)) })
	var unique [4]byte
	testkit.Value(rand.Read(unique[:]))(t)
	f := &someHosts{T: t, key: sshtest.NewKey(t)}
	authorized := sshtest.AuthorizedKey(f.key.PublicKey())
	f.p = testkit.Value(local.New(local.Options{
		ClusterID: "hosts-" + hex.EncodeToString(unique[:]), Root: filepath.Join(root, "local"), ImageRoot: filepath.Join(root, "images"),
		SSHPublicKeys: []string{authorized}, Supervisor: testkit.InOwnNetwork(os.Args[0], local.SupervisorCommand),
	}))(t)
	t.Cleanup(func() {
		inv := testkit.Value(f.p.Observe(context.Background()))(t)
		f.carryOut(f.p.Destroy(context.Background(), inv))
	})
	var want provider.Wanted
	for i, n := range names {
		want.Machines = append(want.Machines, provider.MachineSpec{Name: n, Role: provider.Worker, Pool: "hosts", Index: i + 1})
	}
	f.carryOut(testkit.Value(f.p.Steps(t.Context(), want, &provider.Inventory{}))(t))
	for _, n := range names {
		m := testkit.Value(f.p.Machine(t.Context(), n))(t)
		m.User = "root"
		testkit.Value(f.run(m, "useradd -m "+user+" && install -d -o "+user+" -m 700 ~"+user+"/.ssh && echo '"+authorized+"' > ~"+user+
			"/.ssh/authorized_keys && chown "+user+" ~"+user+"/.ssh/authorized_keys && echo '"+user+" ALL=(ALL) NOPASSWD:ALL' > /etc/sudoers.d/"+user))(t)
	}
	return f
}

func (f *someHosts) carryOut(steps []*plan.Step) {
	f.Helper()
	_, err := plan.Execute(context.Background(), &plan.Plan{Verb: "test", Cluster: "hosts", Steps: steps}, plan.Options{})
	testkit.Must(f, err)
}

// document gives the machines to a cluster, each with the role that its name begins with.
func (f *someHosts) document() *v1alpha1.Cluster {
	f.Helper()
	var b strings.Builder
	vip := testkit.Value(f.p.VIP(f.Context()))(f)
	fmt.Fprintf(&b, "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: demo}\nspec:\n  endpoint: {kind: gateways, vip: %s}\n", vip)
	fmt.Fprintf(&b, "  provider:\n    hosts:\n      user: %s\n      sshKeyFile: /nowhere\n      machines:\n", user)
	roles := map[string]string{"gw": v1alpha1.RoleGateway, "cp": v1alpha1.RoleControlPlane, "w": v1alpha1.RoleWorker}
	for _, m := range testkit.Value(f.p.Observe(f.Context()))(f).Machines {
		role, _, _ := strings.Cut(m.Name, "-")
		fmt.Fprintf(&b, "        - {name: %s, address: %s, role: %s, hostKey: %s}\n", m.Name, m.Address, roles[role], m.HostKeys[0])
	}
	return testkit.Value(validation.Parse("test", []byte(b.String())))(f)
}

// run runs a command on a machine, as its user.
func (f *someHosts) run(m provider.Machine, command string) (string, error) {
	pinned, _, _, _, err := ssh.ParseAuthorizedKey([]byte(m.HostKeys[0]))
	if err != nil {
		return "", err
	}
	l := sshtest.Login{User: m.User, Key: f.key, HostKey: pinned, Timeout: 10 * time.Second}
	out, err := l.Run(fmt.Sprintf("%s:%d", m.Address, m.Port), command)
	if err != nil {
		err = fmt.Errorf("%s: %s: %w: %s", m.Name, command, err, out)
	}
	return out, err
}

// login verifies that the provider's address of a machine works.
func (f *someHosts) login(t testing.TB, m provider.Machine) {
	t.Helper()
	if out := testkit.Value(f.run(m, "hostname; whoami; sudo -n whoami"))(t); out != m.Name+"\n"+user+"\nroot" {
		t.Errorf("%s answers %q", m.Name, out)
	}
}

// usable waits until the user may log in: early in a boot only root may.
func (f *someHosts) usable(t testing.TB, name string) {
	t.Helper()
	m := testkit.Value(f.p.Machine(t.Context(), name))(t)
	m.User = user
	testkit.Until(t, time.Minute, 100*time.Millisecond, func() error { _, err := f.run(m, "true"); return err })
}

// states lists the machines with their states and boot IDs, which show whether a test has touched a machine.
func (f *someHosts) states(t testing.TB) []string {
	t.Helper()
	var out []string
	for _, m := range testkit.Value(f.p.Observe(t.Context()))(t).Machines {
		users := testkit.Value(f.run(m, "ls /home /var/lib | sort | tr '\\n' ' '"))(t)
		out = append(out, fmt.Sprintf("%s %s %s %s", m.Name, m.Address, m.State, users))
	}
	slices.Sort(out)
	return out
}
