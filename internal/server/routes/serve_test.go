package routes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry"
	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/authority"
	"github.com/naupegos/naupegos/internal/server/problem"
	"github.com/naupegos/naupegos/internal/server/routes"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// The test binary runs itself as a server process, on the store in $ROUTES_TEST_DIR, or in the database of $ROUTES_TEST_URL.
const dirEnv, urlEnv = "ROUTES_TEST_DIR", "ROUTES_TEST_URL"

func TestMain(m *testing.M) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := serveAlone(store.Location{Dir: dir, URL: os.Getenv(urlEnv)}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// addresses are the addresses of a server.
type addresses struct{ HTTP, HTTPS string }

// serveAlone serves until standard input ends, and prints its addresses.
func serveAlone(at store.Location) (err error) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	st, err := store.Open(ctx, at)
	if err != nil {
		return err
	}
	defer st.Close()
	srv, _, _, err := listen(ctx, st, registry.Options{Rules: []registry.Rule{{"mac": "52:54:*"}}}, routes.Options{})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(addresses{"http://" + srv.Addresses().HTTP, "https://" + srv.Addresses().HTTPS}); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the test ends it
		stop()
	}()
	return srv.Serve(ctx)
}

// listen makes a server with the routes on a store, with a guard that accepts the tests' tokens.
func listen(ctx context.Context, st store.Store, o registry.Options, r routes.Options) (*server.Server, *authority.Authority, *registry.Registry, error) {
	own, err := authority.Open(ctx, st.ServerSecrets(), "server")
	if err != nil {
		return nil, nil, nil, err
	}
	machines, err := authority.Open(ctx, st.ServerSecrets(), "machines")
	if err != nil {
		return nil, nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	serving, err := own.Serve(nil, log)
	if err != nil {
		return nil, nil, nil, err
	}
	o.Issuer, o.Secrets, o.Power = issuer{machines}, st.ServerSecrets(), switchboard{}
	r.Registry = registry.New(st.Metal(), o)
	srv, err := server.Listen(ctx, server.Config{
		ListenHTTP: "127.0.0.1:0", ListenHTTPS: "127.0.0.1:0", Serving: serving, Clients: machines.Pool(), Log: log,
		Parts: []server.Part{{Name: "machines", Mounts: routes.Mounts(r)}}, Ping: func(context.Context) error { return nil },
		Guard: func(m server.Mount, next http.Handler) http.Handler {
			need := m.Need
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !strings.HasPrefix(r.Header.Get("Authorization"), tokens[need]) {
					problem.Write(w, fail.New(fail.Unauthorized, "no token with the role %s", need))
					return
				}
				next.ServeHTTP(w, r)
			})
		},
	})
	return srv, own, r.Registry, err
}

// process is a server process.
type process struct {
	addresses
	cmd *exec.Cmd
}

// spawn starts a server on a store, and waits until it listens. It stops with the test.
func spawn(t *testing.T, at store.Location) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), dirEnv+"="+at.Dir, urlEnv+"="+at.URL)
	p.cmd.Stderr = os.Stderr
	out, in := testkit.Value(p.cmd.StdoutPipe())(t), testkit.Value(p.cmd.StdinPipe())(t)
	testkit.Must(t, p.cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		end := time.AfterFunc(time.Minute, func() { _ = p.cmd.Process.Kill() })
		defer end.Stop()
		_ = p.cmd.Wait() // an error if it was killed
	})
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the server does not start: %v", err)
	}
	testkit.Must(t, json.Unmarshal(line, &p.addresses))
	return p
}

// memory returns the memory of the process, now and at its peak.
func (p *process) memory(t *testing.T) string {
	t.Helper()
	var words []string
	for line := range strings.Lines(string(testkit.Value(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))(t))) {
		for _, name := range []string{"VmRSS:", "VmHWM:"} {
			if v, ok := strings.CutPrefix(line, name); ok {
				words = append(words, strings.Join(strings.Fields(v), " "))
			}
		}
	}
	return strings.Join(words, ", now ")
}
