//go:build integration

package web

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/bundle"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/cluster/memory"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/operate"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/server/work"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/internal/testkit/sshtest"
)

// given is a site whose cluster, harbour, has one machine: this process answers for it by SSH, and says what its agent would. The cluster was built with
// a bundle that is not here any more. Nothing of it serves; a board carries jobs out.
type given struct {
	*site
	hold, made string // files: the agent ends once somebody has opened the one, and has made the other by then
}

func newGiven(t *testing.T) *given {
	t.Helper()
	dir := t.TempDir()
	g := &given{newSite(t), filepath.Join(dir, "hold"), filepath.Join(dir, "made")}
	testkit.Must(t, syscall.Mkfifo(g.hold, 0o600))
	key, agent := filepath.Join(dir, "key"), filepath.Join(dir, "naupegos-agent")
	private, _, err := remote.GenerateKey("test")
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(key, private, 0o600))
	testkit.Must(t, os.WriteFile(agent, []byte("an agent"), 0o700))
	srv := sshtest.NewServer(t, testkit.Value(remote.ParseKey(private))(t).PublicKey())
	srv.Command = g.says
	address := reachable(t, srv)
	document := fmt.Sprintf(`apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: harbour}
spec:
  provider:
    hosts:
      sshKeyFile: %s
      port: %d
      machines: [{name: harbour-cp-1, address: %s, role: control-plane, hostKey: %s}]
  controlPlane: {schedulable: true}
  endpoint: {kind: direct}
  timeouts: {step: 10m}
`, key, srv.Port(), address, sshtest.AuthorizedKey(srv.HostKey.PublicKey()))
	facts := store.Facts{}
	doc := testkit.Value(v1alpha1.Parse("test", []byte(document)))(t)
	is := &bundle.Bundle{ID: strings.Repeat("b", 64), Manifest: bundletest.Manifest(doc.Spec.Kubernetes.Version)}
	for kind, value := range map[memory.Kind]string{
		memory.Bootstrapped: "true", memory.EtcdInitial: "harbour-cp-1=https://" + address + ":2380", memory.Bundle: is.Manifest.Title() + " " + strings.Repeat("a", 64),
	} {
		facts[store.Fact{Kind: string(kind)}] = value
	}
	testkit.Value(g.store.CreateCluster(t.Context(), store.Cluster{Name: "harbour", Provider: "hosts", Document: []byte(document), Facts: facts}))(t)
	options := func(a operate.Asked, n work.Need) operate.Options {
		o := operate.Options{Look: n.Look, ReadOnly: !n.CarryOut || a.ReadOnly(), Agent: func() (string, error) { return agent, nil },
			Bundle: func(context.Context, *v1alpha1.Cluster, string, string) (use, newest *bundle.Bundle, err error) {
				return is, is, nil
			}}
		if n.CarryOut {
			o.Verb = a.Verb
		}
		return o
	}
	g.board = work.New(work.Config{Store: g.store, Open: g.pages.c.Open, Options: options, Log: slog.New(slog.DiscardHandler)})
	g.pages.c.Board, g.pages.c.Options = g.board, options
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.board.Run(ctx) }()
	t.Cleanup(func() { // before the store is closed
		g.goOn()
		stop()
		testkit.Must(t, <-ended)
	})
	return g
}

// reachable is an address at which a server on loopback can be reached, too, and which a document may name: one more of the loopback interface.
func reachable(t *testing.T, srv *sshtest.Server) string {
	t.Helper()
	const address = "10.254.77.1"
	ip := func(verb string) {
		if out, err := exec.Command("ip", "address", verb, address+"/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Errorf("ip address %s: %v: %s", verb, err, out)
		}
	}
	ip("replace")
	t.Cleanup(func() { ip("delete") })
	l := testkit.Value(net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(srv.Port()))))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", srv.Addr().String())
			if err != nil {
				_ = from.Close()
				continue
			}
			go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
			go func() { _, _ = io.Copy(from, to); _ = from.Close() }()
		}
	}()
	return address
}

// says is what runs on this host in place of a command for the machine: nothing of what it was to do.
func (g *given) says(command string) string {
	_, verb, agent := strings.Cut(command, "/naupegos-agent ")
	answer := func(v any) string {
		raw := testkit.Value(json.Marshal(v))(g.t)
		return "cat > /dev/null; echo '" + string(raw) + "'"
	}
	switch {
	case command == "true":
		return command
	case agent && verb == "facts":
		return answer(machine.Facts{Hostname: "harbour-cp-1", OS: "debian 12", CgroupVersion: 2, Systemd: true, Dpkg: true, Interface: "eth0"})
	case agent && verb == "apply --dry-run":
		var r machine.Report
		if _, err := os.Stat(g.made); err != nil {
			r.Changes = []machine.Change{{Kind: "file", Name: "/etc/kubernetes/manifests/etcd.yaml", Action: "create", Why: "it is missing"}}
		}
		return answer(r)
	case agent && verb == "apply":
		return "cat > /dev/null; cat '" + g.hold + "'; touch '" + g.made + "'; " + answer(machine.Report{Digest: "made"})
	}
	return "echo this machine does nothing >&2; exit 3"
}

// goOn has the machine's agent end, if it runs.
func (g *given) goOn() {
	if f, err := os.OpenFile(g.hold, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = f.Close() // who reads it is at its end
	}
}
