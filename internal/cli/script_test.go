package cli

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/bundle/bundletest"
	"github.com/naupegos/naupegos/internal/gitread/gittest"
	"github.com/naupegos/naupegos/internal/release"
	"github.com/naupegos/naupegos/internal/remote"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestMain(m *testing.M) {
	run := func() {
		os.Exit(Main(context.Background(), &App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, passphraseWork: 10}, os.Args[1:]))
	}
	if len(os.Args) > 2 && os.Args[1] == "server" && os.Args[2] == "front" { // a server in this process starts its front process
		run()
	}
	testscript.Main(m, map[string]func(){"naupegos": run})
}

// TestScript runs the command as a user does. Each script has an empty store of its own; `exits N naupegos …` expects an exit status (or one of
// several: 0|4), `remember FILE` stores a document as if it had been applied, `bundle FILE` makes a bundle with FILE as kubectl, `release VERSION`
// puts an empty bundle of a Kubernetes release into the library, which suffices for plans; `sshkey FILE` makes an SSH key; `serving URL` waits until a
// server is healthy; `discover URL FILE` sends a machine's facts; `until REGEXP COMMAND...` waits until a command succeeds with matching output;
// `scrape URL CA TOKEN` prints a server's metrics as Prometheus' own parser reads them; `ask STATUS METHOD URL CA TOKEN [BODY]` sends a request with
// a token ("-" for none) and a file as its body, and prints the answer. `ordinary N naupegos …` expects an exit status of a command run by a user
// other than root. $PORT and $PORTS are free ports, and $PORT2 and $PORTS2.
// `gitsite` serves an empty repository at $REPOSITORY, by the authority in git-ca.pem; $GITWORK is its work tree.
func TestScript(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			e.Setenv("XDG_CACHE_HOME", filepath.Join(e.WorkDir, "cache"))
			e.Setenv("NO_COLOR", "1")
			e.Setenv("HOSTIP", ownAddress())
			e.Setenv("KUBERNETES", release.Default)
			e.Setenv("PORT", strconv.Itoa(testkit.FreePort(t)))
			e.Setenv("PORTS", strconv.Itoa(testkit.FreePort(t)))
			e.Setenv("PORT2", strconv.Itoa(testkit.FreePort(t)))
			e.Setenv("PORTS2", strconv.Itoa(testkit.FreePort(t)))
			return besideCommand(e.Getenv("PATH"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "remember": remember, "bundle": putBundle, "release": haveABundle, "sshkey": sshKey, "serving": untilServing, "discover": discover, "until": until, "scrape": scrape, "ask": ask, "receive": receive, "ordinary": asOrdinary, "gitsite": gitSite(t)},
	})
}

// ownAddress returns an address of this host that a document may name, where a closed port refuses connections at once. If there is none, it
// returns an unused address.
func ownAddress() string {
	addrs, err := net.InterfaceAddrs()
	if err == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
				return n.IP.String()
			}
		}
	}
	return "192.0.2.21"
}

// besideCommand puts a placeholder in the agent's place, for verbs that look for it there; no script runs it.
func besideCommand(path string) error {
	for _, dir := range filepath.SplitList(path) {
		if _, err := os.Stat(filepath.Join(dir, "naupegos")); err == nil {
			return besideCommandIn(dir)
		}
	}
	return errors.New("the command is not in " + path)
}

func besideCommandIn(dir string) error {
	return os.WriteFile(filepath.Join(dir, "naupegos-agent"), []byte("#!/bin/false\n"), 0o755)
}

// putBundle puts a bundle into the library, with the given file as kubectl.
func putBundle(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: bundle FILE")
	}
	_, err := bundletest.WriteSmall(filepath.Join(ts.Getenv("XDG_CACHE_HOME"), "naupegos", "bundles"), ts.ReadFile(args[0]))
	ts.Check(err)
}

// exits runs a command and checks its exit status.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if !slices.Contains(strings.Split(args[0], "|"), strconv.Itoa(got)) {
		ts.Fatalf("%s exited with %d, want %s", strings.Join(args[1:], " "), got, args[0])
	}
}

// remember stores a document.
func remember(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: remember FILE")
	}
	ctx := context.Background()
	st, err := store.Open(ctx, store.Location{Dir: filepath.Join(ts.Getenv("XDG_STATE_HOME"), "naupegos")})
	ts.Check(err)
	defer st.Close()
	doc, err := validation.Parse(args[0], []byte(ts.ReadFile(args[0])))
	ts.Check(err)
	_, err = st.CreateCluster(ctx, store.Cluster{Name: "demo", Provider: doc.Spec.Provider.Name(), Document: []byte(ts.ReadFile(args[0]))})
	ts.Check(err)
}

// haveABundle registers a bundle without content.
func haveABundle(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: release VERSION")
	}
	manifest := fmt.Appendf(nil, `{"schema":1,"kubernetes":%q,"platform":"linux/%s","origin":"built"}`, args[0], runtime.GOARCH)
	dir := filepath.Join(ts.Getenv("XDG_CACHE_HOME"), "naupegos", "bundles", "manifests")
	ts.Check(os.MkdirAll(dir, 0o755))
	ts.Check(os.WriteFile(filepath.Join(dir, fmt.Sprintf("%x.json", sha256.Sum256(manifest))), manifest, 0o644))
}

// untilServing waits until a server reports itself healthy.
func untilServing(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serving URL")
	}
	deadline := time.Now().Add(time.Minute)
	for tick := time.Tick(50 * time.Millisecond); ; <-tick {
		res, err := http.Get(args[0])
		if err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(res.Status)
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s: %v", args[0], err)
		}
	}
}

// until runs a command until it succeeds with matching output.
func until(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND...")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	deadline := time.Now().Add(5 * time.Minute)
	for tick := time.Tick(200 * time.Millisecond); ; <-tick {
		err := ts.Exec(args[1], args[2:]...)
		if out := ts.ReadFile("stdout"); err == nil && want.MatchString(out) {
			return
		} else if time.Now().After(deadline) {
			ts.Fatalf("%s: %v; it printed:\n%s", strings.Join(args[1:], " "), err, out)
		}
	}
}

// scrape reads a server's metrics, as Prometheus does.
func scrape(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 3 {
		ts.Fatalf("usage: scrape URL CA TOKEN")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ts.ReadFile(args[1]))) {
		ts.Fatalf("%s has no certificate", args[1])
	}
	req, err := http.NewRequest(http.MethodGet, args[0], nil)
	ts.Check(err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[2])))
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer t.CloseIdleConnections()
	res, err := (&http.Client{Transport: t, Timeout: time.Minute}).Do(req)
	ts.Check(err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		fmt.Fprintln(ts.Stdout(), res.Status)
		return
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(res.Body)
	ts.Check(err)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		_, err := expfmt.MetricFamilyToText(ts.Stdout(), families[name])
		ts.Check(err)
	}
}

// ask sends a request, checks the status and prints the answer.
func ask(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 5 || len(args) > 6 {
		ts.Fatalf("usage: ask STATUS METHOD URL CA TOKEN [BODY]")
	}
	body := ""
	if len(args) == 6 {
		body = strings.TrimSuffix(ts.ReadFile(args[5]), "\n")
	}
	req, err := http.NewRequest(args[1], args[2], strings.NewReader(body))
	ts.Check(err)
	if args[4] != "-" {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[4])))
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(ts.ReadFile(args[3])))
	t := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}
	defer t.CloseIdleConnections()
	res, err := (&http.Client{Transport: t, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(req)
	ts.Check(err)
	defer res.Body.Close()
	said, err := io.ReadAll(res.Body)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s%s\n", res.Header.Get("Location"), said)
	if strconv.Itoa(res.StatusCode) != args[0] {
		ts.Fatalf("%s %s: %s, want %s: %s", args[1], args[2], res.Status, args[0], said)
	}
}

// gitSite returns the command that makes a repository and serves it until the test ends.
func gitSite(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) > 0 {
			ts.Fatalf("usage: gitsite")
		}
		site := gittest.NewSite(t)
		repo := site.NewRepo("infra")
		ts.Setenv("REPOSITORY", repo.URL)
		ts.Setenv("GITWORK", repo.Work)
		ts.Check(os.WriteFile(ts.MkAbs("git-ca.pem"), []byte(site.CA), 0o600))
	}
}

// discover sends a machine's facts to a server.
func discover(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: discover URL FILE")
	}
	res, err := http.Post(args[0], "application/json", strings.NewReader(ts.ReadFile(args[1])))
	ts.Check(err)
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		ts.Fatalf("%s: %s", args[0], res.Status)
	}
}

// receive starts a receiver of webhooks until the script ends. It writes its URL to one file, and the bodies of requests to another.
func receive(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: receive URLFILE BODIES")
	}
	bodies, err := os.Create(ts.MkAbs(args[1]))
	ts.Check(err)
	var mu sync.Mutex
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, err := io.Copy(bodies, r.Body)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(w, "thanks")
	}))
	ts.Defer(func() { srv.Close(); _ = bodies.Close() })
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(srv.URL+"/T0KEN\n"), 0o600))
}

// sshKey writes a private key.
func sshKey(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: sshkey FILE")
	}
	private, _, err := remote.GenerateKey("test")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), private, 0o600))
}
