//go:build e2e

package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store/storetest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// served is a server, started from the built command.
type served struct {
	t       *testing.T
	env     []string
	state   string
	http    string
	address string
	flags   []string
	cmd     *exec.Cmd
	mu      sync.Mutex
	log     bytes.Buffer
}

// serve starts a server on a store, until the test ends.
func serve(t *testing.T, env []string, state string) *served {
	t.Helper()
	at := func() string { return fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(t)) }
	s := &served{t: t, env: env, state: state, http: at(), address: at()}
	s.start()
	t.Cleanup(s.kill)
	return s
}

// afar returns the invocation of naupegos that uses the server with a token.
func (s *served) afar(token string) invocation {
	return invocation{timeout: 10 * time.Minute, env: []string{"NAUPEGOS_SERVER=https://" + s.address, "NAUPEGOS_TOKEN=" + token,
		"NAUPEGOS_SERVER_CA=" + filepath.Join(s.state, "server-ca.crt")}}
}

// Write appends to the server's log.
func (s *served) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(b)
}

func (s *served) said(text string) bool {
	return strings.Contains(s.text(), text)
}

func (s *served) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// testPolicy permits the use of the host that tests need.
const testPolicy = `apiVersion: naupegos.dev/v1alpha1
kind: ServerPolicy
providers: [local, hosts, openstack, metal]
bmcNetworks: [127.0.0.0/8]
clusters: [{autoscalePorts: 1024-65535}]
`

// start starts the server, and waits until it is healthy.
func (s *served) start() {
	s.t.Helper()
	policy := s.state + ".policy.yaml"
	testkit.Must(s.t, os.WriteFile(policy, []byte(testPolicy), 0o600))
	s.cmd = exec.Command(built.bin, append([]string{"server", "--state-dir", s.state, "--listen-http", s.http, "--listen-https", s.address, "--policy", policy}, s.flags...)...)
	s.cmd.Env = append(os.Environ(), s.env...)
	s.cmd.Stdout, s.cmd.Stderr = s, s
	testkit.Must(s.t, s.cmd.Start())
	until(s.t, 2*time.Minute, 100*time.Millisecond, func() error {
		res, err := http.Get("http://" + s.http + "/healthz")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fail.New(fail.NotReady, "it answers %s", res.Status)
		}
		return nil
	})
}

// kill ends the server as a power cut does.
func (s *served) kill() {
	_ = s.cmd.Process.Kill() // the process may have ended
	_ = s.cmd.Wait()
}

// TestServers: two servers share a PostgreSQL database. A server's plan equals the command's. The server that runs an apply is killed, and the
// other one continues: waiting clients see the end, and the command finds nothing left to do. Then the other server restores a backup into the living
// cluster.
func TestServers(t *testing.T) {
	testkit.OnlyFull(t, "the board's unit tests have a server vanish at three moments, and TestScript a job done by a real server")
	const name = "servers"
	dir := filepath.Join(built.dir, name)
	testkit.Must(t, os.MkdirAll(dir, 0o700))
	state, file := filepath.Join(dir, "state"), filepath.Join(dir, "cluster.yaml")
	testkit.Must(t, os.WriteFile(file, fmt.Appendf(nil, `apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: %s}
spec:
  provider: {local: {}}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1}
  workers: [{name: a, replicas: 1}]
  smokeTest: false
`, name), 0o600))
	db := storetest.StartPostgres(t)
	here := invocation{env: []string{"NAUPEGOS_STORE=" + storetest.WithPassword(t, db.NewDatabase(t))}, timeout: 10 * time.Minute}
	run := func(i invocation, code int, args ...string) result {
		t.Helper()
		r := naupegos(t, i, append([]string{"--state-dir", state}, args...)...)
		if r.code != code {
			t.Fatal(r)
		}
		return r
	}
	servers := [2]*served{serve(t, here.env, state), serve(t, here.env, state)}
	token := strings.TrimSpace(run(here, 0, "server", "token", "create", "test", "--role", "operate").stdout)
	if hand, far := run(here, 2, "plan", "-f", file, "-o", "json"), run(servers[1].afar(token), 2, "plan", "-f", file, "-o", "json"); hand.stdout != far.stdout {
		t.Errorf("the command plans\n%s\nand the server\n%s", hand.stdout, far.stdout)
	}
	t.Cleanup(func() { naupegos(t, here, "--state-dir", state, "destroy", name, "--yes") })

	got := make(chan result, 1)
	go func() {
		got <- naupegos(t, servers[0].afar(token), "--state-dir", state, "apply", "-f", file, "--yes")
	}()
	var victim, other *served
	until(t, 5*time.Minute, 20*time.Millisecond, func() error { // machines are being made, or exist already
		for i, s := range servers {
			if s.said("job taken") {
				victim, other = s, servers[1-i]
			}
		}
		if machines, err := filepath.Glob("/var/lib/naupegos/local/" + name + "-*/machines/*"); victim == nil || err != nil || len(machines) == 0 {
			return fail.New(fail.NotReady, "no machine is made yet")
		}
		return nil
	})
	victim.kill()
	until(t, 2*time.Minute, 100*time.Millisecond, func() error {
		if !other.said("attempt=2") {
			return fail.New(fail.NotReady, "the other server has not taken the job")
		}
		return nil
	})
	victim.start() // clients that wait there get answers again
	if r := <-got; r.code != 0 || !strings.Contains(r.stdout, "Cluster "+name+" is up") {
		t.Fatalf("%v\n%s", r, &other.log)
	}
	if r := run(here, 0, "apply", "-f", file, "--yes"); !strings.Contains(r.stdout, "No changes") {
		t.Errorf("the command finds more to do: %v", r)
	}
	if r := run(other.afar(token), 0, "apply", "-f", file, "--yes"); !strings.Contains(r.stdout, "No changes") {
		t.Errorf("the server finds more to do: %v", r)
	}
	run(other.afar(token), 0, "status", name)

	// A server restores a backup into the living cluster.
	run(other.afar(token), 0, "backup", "create", name)
	r := &rig{t: t, site: onHost{}, name: name, state: state, inv: here}
	_, err := r.api().CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "since"}}, metav1.CreateOptions{})
	testkit.Must(t, err)
	run(other.afar(token), 4, "backup", "restore", name, "--from", "latest", "--yes")
	run(other.afar(token), 0, "backup", "restore", name, "--from", "latest", "--consent", "replace-data", "--yes")
	if _, err := r.api().CoreV1().Namespaces().Get(t.Context(), "since", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("objects created since the backup still exist: %v", err)
	}
	if r := run(other.afar(token), 0, "destroy", name, "--yes"); !strings.Contains(r.stdout, "nothing of it is left") {
		t.Error(r)
	}
}
