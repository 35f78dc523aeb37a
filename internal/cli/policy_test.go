package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/store"
	"github.com/naupegos/naupegos/internal/testkit"
)

// decoy listens on loopback and counts connections: a server whose administrator permits nothing opens none.
type decoy struct {
	at    string
	count atomic.Int64
}

func newDecoy(t *testing.T) *decoy {
	t.Helper()
	l := testkit.Value(net.Listen("tcp4", ":0"))(t)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	d := &decoy{at: "127.0.0.1:" + port}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			d.count.Add(1)
			_ = c.Close() // the caller gets no answer
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return d
}

// trap is a FIFO: a process that opens it to read blocks there until a writer comes, so that opened sees it.
type trap string

func newTrap(t *testing.T) trap {
	t.Helper()
	path := filepath.Join(testkit.Value(os.MkdirTemp("", "trap-"))(t), "secret") // a path without commas, for YAML in one line
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(path)) })
	testkit.Must(t, syscall.Mkfifo(path, 0o600))
	return trap(path)
}

func (f trap) opened(t *testing.T) bool {
	t.Helper()
	w, err := os.OpenFile(string(f), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) {
		return false
	}
	testkit.Must(t, err)
	_ = w.Close() // the reader sees an end
	return true
}

// policed is a server in this process, with its store.
type policed struct {
	t     *testing.T
	url   string
	state string
}

// police runs a server with these flags until the test ends.
func police(t *testing.T, state string, flags ...string) *policed {
	t.Helper()
	exe := testkit.Value(os.Executable())(t)
	testkit.Must(t, besideCommandIn(filepath.Dir(exe)))
	p := &policed{t: t, state: state}
	http1, https := testkit.FreePort(t), testkit.FreePort(t)
	p.url = fmt.Sprintf("https://127.0.0.1:%d", https)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var log testkit.Buffer
	go func() {
		root := New(&App{In: strings.NewReader(""), Out: io.Discard, Err: &log})
		root.SetArgs(append([]string{"--state-dir", state, "server", "--drain", "1s", "--listen-http", fmt.Sprintf("127.0.0.1:%d", http1), "--listen-https", fmt.Sprintf("127.0.0.1:%d", https)}, flags...))
		ended <- root.ExecuteContext(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("the server: %v\n%s", err, log.String())
			}
		case <-time.After(30 * time.Second):
			t.Errorf("the server does not end:\n%s", log.String())
		}
	})
	deadline := time.Now().Add(time.Minute)
	for tick := time.Tick(50 * time.Millisecond); ; <-tick {
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/healthz", http1))
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return p
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server does not serve: %v\n%s", err, log.String())
		}
	}
}

func (p *policed) store() store.Store {
	p.t.Helper()
	st := testkit.Value(store.Open(context.Background(), store.Location{Dir: p.state}))(p.t)
	p.t.Cleanup(func() { _ = st.Close() })
	return st
}

func (p *policed) token(role server.Role, cluster string) string {
	p.t.Helper()
	secret, _, err := access.NewToken(context.Background(), p.store(), "mallory", role, cluster, time.Hour)
	testkit.Must(p.t, err)
	return secret
}

// ask sends a request, and returns the answer. A server that hangs, for example on a FIFO, fails the test.
func (p *policed) ask(token, method, path string, body any) (int, string) {
	p.t.Helper()
	raw := testkit.Value(json.Marshal(body))(p.t)
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	req := testkit.Value(http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewReader(raw)))(p.t)
	req.Header.Set("Authorization", "Bearer "+token)
	c := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		p.t.Errorf("%s %s: %v", method, path, err)
		return 0, ""
	}
	defer res.Body.Close()
	return res.StatusCode, string(testkit.Value(io.ReadAll(res.Body))(p.t))
}

// document writes a document around a spec.
func document(name, spec string) string {
	if !strings.Contains(spec, "endpoint: {") {
		spec += "\nendpoint: {kind: direct}"
	}
	spec += "\ncontrolPlane: {replicas: 1, schedulable: true}"
	return "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec:\n" + indent(spec)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ") + "\n"
}

// naming are documents that name something of the server's host, or an address: %[1]s is a FIFO, %[2]s a decoy's HOST:PORT, %[3]s its port, %[4]s an
// address of this host.
var naming = map[string]string{
	"Vault, kubernetes":                 "provider: {metal: {}}\npki: {issuer: {vault: {address: 'http://%[2]s', mount: pki/demo, auth: {method: kubernetes, role: x}}}}",
	"Vault, token file":                 "provider: {metal: {}}\npki: {issuer: {vault: {address: 'http://%[2]s', mount: pki/demo, auth: {credentialsFile: %[1]s}}}}",
	"Vault, token of the environment":   "provider: {metal: {}}\npki: {issuer: {vault: {address: 'http://%[2]s', mount: pki/demo}}}",
	"Vault, AppRole file":               "provider: {metal: {}}\npki: {issuer: {vault: {address: 'http://%[2]s', mount: pki/demo, auth: {method: appRole, credentialsFile: %[1]s}}}}",
	"Vault, AppRole of the environment": "provider: {metal: {}}\npki: {issuer: {vault: {address: 'http://%[2]s', mount: pki/demo, auth: {method: appRole}}}}",
	"provider local":                    "provider: {local: {}}\naccess: {sshKeys: ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJMaSG8w0zs4pQtIRxHUwjaYqG1Db+wDIgQ3Wpjuvunm x']}",
	"provider hosts":                    "provider: {hosts: {sshKeyFile: %[1]s, port: %[3]s, trustOnFirstUse: true, machines: [{address: %[4]s, role: control-plane}]}}\nendpoint: {kind: direct}",
	"SSH agent":                         "provider: {hosts: {sshAgent: true, port: %[3]s, trustOnFirstUse: true, machines: [{address: %[4]s, role: control-plane}]}}\nendpoint: {kind: direct}",
	"SSH configuration":                 "provider: {hosts: {sshConfig: %[1]s, port: %[3]s, trustOnFirstUse: true, machines: [{address: %[4]s, role: control-plane}]}}\nendpoint: {kind: direct}",
	"password of sudo":                  "provider: {hosts: {credential: x, user: me, sudoPassword: {file: %[1]s}, port: %[3]s, trustOnFirstUse: true, machines: [{address: %[4]s, role: control-plane}]}}\nendpoint: {kind: direct}",
	"password of one host's sudo":       "provider: {hosts: {credential: x, user: me, port: %[3]s, trustOnFirstUse: true, machines: [{address: %[4]s, role: control-plane, sudoPassword: {env: VAULT_TOKEN}}]}}\nendpoint: {kind: direct}",
	"key of one host":                   "provider: {hosts: {credential: x, port: %[3]s, trustOnFirstUse: true, machines: [{address: %[4]s, role: control-plane, sshKeyFile: %[1]s}]}}\nendpoint: {kind: direct}",
	"bastion":                           "provider: {hosts: {credential: x, trustOnFirstUse: true, bastions: [{address: %[4]s, port: %[3]s, sshKeyFile: %[1]s}], machines: [{address: 192.0.2.1, role: control-plane}]}}\nendpoint: {kind: direct}",
	"clouds.yaml":                       "provider: {openstack: {cloud: prod, machine: {flavor: a, image: b}}}",
	"OS_* variables":                    "provider: {openstack: {machine: {flavor: a, image: b}}}",
	"S3, credentials file":              "provider: {metal: {}}\nbackup: {to: {s3: {endpoint: 'http://%[2]s', bucket: abc, credentialsFile: %[1]s}}}",
	"S3, environment":                   "provider: {metal: {}}\nbackup: {to: {s3: {endpoint: 'http://%[2]s', bucket: abc}}}",
	"S3, scheduled":                     "provider: {metal: {}}\nbackup: {to: {s3: {endpoint: 'http://%[2]s', bucket: abc}}, schedule: '@daily', keep: {last: 1}}",
	"Swift, credentials file":           "provider: {metal: {}}\nbackup: {to: {swift: {authURL: 'http://%[2]s/v3', container: abc, credentialsFile: %[1]s}}}",
	"Swift, environment":                "provider: {metal: {}}\nbackup: {to: {swift: {authURL: 'http://%[2]s/v3', container: abc}}}",
	"directory":                         "provider: {metal: {}}\nbackup: {to: {directory: /etc}}",
	"API on loopback":                   "provider: {metal: {}}\nendpoint: {address: 'localhost:%[3]s'}",
	"privileged port":                   "provider: {metal: {}}\nunattended: {autoscale: true, autoscalePort: 443}\nworkers: [{name: a, maxReplicas: 3}]",
}

// TestDocumentsNameNothingOfTheHost (C1, H1): naming files, variables and addresses does not help an operator who may plan or apply. No decoy
// gets a connection and no file is opened, with any way in, also for a document that was stored before.
func TestDocumentsNameNothingOfTheHost(t *testing.T) {
	for _, v := range []string{"VAULT_TOKEN", "VAULT_ROLE_ID", "VAULT_SECRET_ID", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
		"OS_APPLICATION_CREDENTIAL_ID", "OS_APPLICATION_CREDENTIAL_SECRET"} {
		t.Setenv(v, "secret-of-the-environment")
	}
	keystone := newDecoy(t)
	t.Setenv("OS_AUTH_URL", "http://"+keystone.at+"/v3")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := police(t, t.TempDir())
	operate, read, st := p.token(server.Operate, ""), p.token(server.Read, ""), p.store()
	number := 0
	for what, spec := range naming {
		number++
		name := fmt.Sprintf("c%d", number)
		t.Run(what, func(t *testing.T) {
			p := &policed{t: t, url: p.url, state: p.state}
			d, f := newDecoy(t), newTrap(t)
			_, port, _ := net.SplitHostPort(d.at)
			doc := document(name, strings.NewReplacer("%[1]s", string(f), "%[2]s", d.at, "%[3]s", port, "%[4]s", ownAddress()).Replace(spec))
			refused := func(how string, code int, said string) {
				t.Helper()
				if code != http.StatusForbidden || !strings.Contains(said, "policy") && how != "plan by read" {
					t.Errorf("%s: %d %s; want 403 from the server's policy", how, code, said)
				}
				if n := d.count.Load() + keystone.count.Load(); n != 0 {
					t.Errorf("%s: the fake server got %d connections", how, n)
				}
				if f.opened(t) {
					t.Errorf("%s: the server opened the file that the document names", how)
				}
			}
			plan := map[string]any{"verb": "apply", "document": doc}
			code, said := p.ask(read, http.MethodPost, "/api/v1/plans", plan)
			refused("plan by read", code, said)
			code, said = p.ask(operate, http.MethodPost, "/api/v1/plans", plan)
			refused("plan by operate", code, said)
			_ = testkit.Value(st.CreateCluster(context.Background(), store.Cluster{Name: name, Provider: providerOf(spec), Document: []byte(doc)}))(t)
			code, said = p.ask(read, http.MethodPost, "/api/v1/plans", map[string]any{"verb": "apply", "cluster": name})
			refused("plan of the stored document", code, said)
			code, said = p.ask(read, http.MethodGet, "/api/v1/clusters/"+name+"/backups", nil)
			refused("view", code, said)
		})
	}
}

func providerOf(spec string) string {
	for _, name := range []string{"local", "hosts", "openstack"} {
		if strings.Contains(spec, "{"+name+":") {
			return name
		}
	}
	return "metal"
}

// TestImportNamesNothingOfTheHost (H1 b).
func TestImportNamesNothingOfTheHost(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	p := police(t, t.TempDir())
	operate := p.token(server.Operate, "")
	d, f := newDecoy(t), newTrap(t)
	_, port, _ := net.SplitHostPort(d.at)
	way := map[string]any{"from": "127.0.0.1", "port": json.Number(port), "identity": string(f), "knownHosts": "[127.0.0.1]:" + port + " ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJMaSG8w0zs4pQtIRxHUwjaYqG1Db+wDIgQ3Wpjuvunm\n"}
	for path, body := range map[string]map[string]any{
		"/api/v1/plans":   {"verb": "import", "cluster": "taken", "import": way},
		"/api/v1/imports": {"cluster": "taken", "from": way["from"], "port": way["port"], "identity": way["identity"], "knownHosts": way["knownHosts"]},
	} {
		code, said := p.ask(operate, http.MethodPost, path, body)
		if code != http.StatusForbidden || !strings.Contains(said, "policy") {
			t.Errorf("%s: %d %s; want 403 from the server's policy", path, code, said)
		}
		if d.count.Load() != 0 || f.opened(t) {
			t.Errorf("%s: the host got %d connections, or the key was opened", path, d.count.Load())
		}
	}
}
