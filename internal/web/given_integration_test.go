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
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
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

// given is a site with the cluster harbour, of provider hosts: this process answers SSH for its machines, in place of their agents. The bundle
// that harbour was built with is missing. No server looks at clusters; a board runs jobs.
type given struct {
	*site
	hold, made string // paths: an agent's apply blocks until the test opens hold, and then creates made plus its machine's name
}

// newGiven has one machine.
func newGiven(t *testing.T) *given {
	t.Helper()
	return newGivenOf(t, "endpoint: {kind: direct}", "harbour-cp-1")
}

// newGivenOf has machines with these names, which contain their pools, and this endpoint.
func newGivenOf(t *testing.T, endpoint string, names ...string) *given {
	t.Helper()
	dir := t.TempDir()
	g := &given{newSite(t), filepath.Join(dir, "hold"), filepath.Join(dir, "made")}
	testkit.Must(t, syscall.Mkfifo(g.hold, 0o600))
	key, agent := filepath.Join(dir, "key"), filepath.Join(dir, "naupegos-agent")
	private, _, err := remote.GenerateKey("test")
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(key, private, 0o600))
	testkit.Must(t, os.WriteFile(agent, []byte("an agent"), 0o700))
	user := testkit.Value(remote.ParseKey(private))(t).PublicKey()
	var machines, members []string
	port := 0
	for i, name := range names {
		srv, address := sshtest.NewServer(t, user), fmt.Sprint("10.254.77.", i+1)
		srv.Command = func(command string) string { return g.says(name, command) }
		if port == 0 {
			port = srv.Port()
		}
		reachable(t, srv, address, port)
		role := "worker"
		switch {
		case strings.Contains(name, "-gw-"):
			role = "gateway"
		case strings.Contains(name, "-cp-"):
			role, members = "control-plane", append(members, name+"=https://"+address+":2380")
		}
		machines = append(machines, fmt.Sprintf("        - {name: %s, address: %s, role: %s, hostKey: %s}\n", name, address, role, sshtest.AuthorizedKey(srv.HostKey.PublicKey())))
	}
	document := fmt.Sprintf(`apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: harbour}
spec:
  provider:
    hosts:
      sshKeyFile: %s
      port: %d
      machines:
%s  controlPlane: {schedulable: true}
  %s
  timeouts: {step: 10m}
`, key, port, strings.Join(machines, ""), endpoint)
	facts := store.Facts{}
	doc := testkit.Value(validation.Parse("test", []byte(document)))(t)
	is := &bundle.Bundle{ID: strings.Repeat("b", 64), Manifest: bundletest.Manifest(doc.Spec.Kubernetes.Version)}
	for kind, value := range map[memory.Kind]string{
		memory.Bootstrapped: "true", memory.EtcdInitial: strings.Join(members, ","), memory.Bundle: is.Manifest.Title() + " " + strings.Repeat("a", 64),
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

// owned adds an address to the loopback interface while the test runs.
func owned(t *testing.T, address string) {
	t.Helper()
	ip := func(verb string) {
		if out, err := exec.Command("ip", "address", verb, address+"/32", "dev", "lo").CombinedOutput(); err != nil {
			t.Errorf("ip address %s: %v: %s", verb, err, out)
		}
	}
	ip("replace")
	t.Cleanup(func() { ip("delete") })
}

// reachable forwards connections to an address, which a document may name, to a server on loopback.
func reachable(t *testing.T, srv *sshtest.Server, address string, port int) {
	t.Helper()
	owned(t, address)
	l := testkit.Value(net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(port))))(t)
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
}

// says returns the command to run on this host in place of a machine's command; it only prints the answer.
func (g *given) says(name, command string) string {
	const began = "echo naupegos:began; " // the first output of remote's wrapped commands
	_, verb, agent := strings.Cut(command, "/naupegos-agent ")
	facts := "echo '" + string(testkit.Value(json.Marshal(machine.Facts{
		Hostname: name, OS: "debian 12", CgroupVersion: 2, Systemd: true, Dpkg: true, Interface: "eth0",
	}))(g.t)) + "'"
	answer := func(v any) string {
		raw := testkit.Value(json.Marshal(v))(g.t)
		return began + facts + "; cat > /dev/null; echo '" + string(raw) + "'"
	}
	switch {
	case command == "true":
		return command
	case agent && verb == "facts":
		return began + facts
	case agent && verb == "apply --dry-run":
		var r machine.Report
		if _, err := os.Stat(g.made + name); err != nil {
			r.Changes = []machine.Change{{Kind: "file", Name: "/etc/kubernetes/manifests/etcd.yaml", Action: "create", Why: "it is missing"}}
		}
		return answer(r)
	case agent && verb == "apply":
		return strings.Replace(answer(machine.Report{Digest: "made"}), "cat > /dev/null; ", "cat > /dev/null; cat '"+g.hold+"'; touch '"+g.made+name+"'; ", 1)
	}
	return began + "echo this machine does nothing >&2; exit 3"
}

// goOn lets a waiting agent of the machine finish.
func (g *given) goOn() {
	if f, err := os.OpenFile(g.hold, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil {
		_ = f.Close() // its reader gets EOF
	}
}
