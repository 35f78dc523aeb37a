//go:build integration

package swift_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/naupegos/naupegos/internal/backup/swift"
	"github.com/naupegos/naupegos/internal/testkit"
)

// cloud is a real Keystone and Swift from Debian's packages on the loopback link. Its one disk is a directory.
type cloud struct {
	dir              string
	keystone, proxy  string // addresses
	ID, Secret       string // an application credential
	project, account string
	token            string // the administrator's

	mu    sync.Mutex
	procs map[string]*exec.Cmd
}

const keystoneConf = `[database]
connection = sqlite:///%[1]s/keystone.db
[fernet_tokens]
key_repository = %[1]s/fernet
[credential]
key_repository = %[1]s/credential
[cache]
enabled = false
[identity]
password_hash_rounds = 4
`

const serverConf = `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = %[2]d
swift_dir = %[1]s
devices = %[1]s/devices
mount_check = false
workers = 0
user = root
log_level = INFO
[pipeline:main]
pipeline = %[3]s-server
[app:%[3]s-server]
use = egg:swift#%[3]s
`

const proxyConf = `[DEFAULT]
bind_ip = 127.0.0.1
bind_port = %[2]d
swift_dir = %[1]s
workers = 0
user = root
[pipeline:main]
pipeline = catch_errors proxy-logging listing_formats authtoken keystoneauth copy slo proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:catch_errors]
use = egg:swift#catch_errors
[filter:proxy-logging]
use = egg:swift#proxy_logging
[filter:listing_formats]
use = egg:swift#listing_formats
[filter:copy]
use = egg:swift#copy
[filter:slo]
use = egg:swift#slo
[filter:keystoneauth]
use = egg:swift#keystoneauth
operator_roles = member
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
www_authenticate_uri = %[3]s/v3
auth_url = %[3]s/v3
auth_type = password
project_domain_id = default
user_domain_id = default
project_name = admin
username = admin
password = testpassword
delay_auth_decision = true
interface = public
`

// startCloud starts a cloud with the container demo. It ends with the test.
func startCloud(t *testing.T) *cloud {
	t.Helper()
	for _, p := range []string{"keystone-manage", "uwsgi_python3", "swift-ring-builder", "swift-proxy-server", "swift-object-server"} {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if system, err := os.ReadFile("/etc/os-release"); err == nil && strings.Contains(string(system), "VERSION_ID=\"12\"\n") && strings.Contains(string(system), "\nID=debian\n") {
			t.Fatalf("there is no %s: hack/setup test installs it", p)
		}
		t.Skipf("there is no %s, and this is not Debian 12, whose packages Keystone and Swift are taken from", p)
	}
	c := &cloud{dir: t.TempDir(), procs: map[string]*exec.Cmd{}}
	t.Cleanup(func() {
		logs, _ := filepath.Glob(filepath.Join(c.dir, "*.log"))
		for _, l := range logs {
			if text, err := os.ReadFile(l); err == nil && t.Failed() {
				t.Logf("%s: %s", filepath.Base(l), text[max(0, len(text)-3000):])
			}
		}
		for name := range c.procs {
			c.stop(name)
		}
	})
	for _, d := range []string{"fernet", "credential", "devices/d1"} {
		testkit.Must(t, os.MkdirAll(filepath.Join(c.dir, d), 0o700))
	}
	port := testkit.FreePort(t)
	c.keystone = fmt.Sprintf("http://127.0.0.1:%d", port)
	conf := c.write(t, "keystone.conf", fmt.Sprintf(keystoneConf, c.dir))
	ports := map[string]int{"account": testkit.FreePort(t), "container": testkit.FreePort(t), "object": testkit.FreePort(t)}
	proxy := testkit.FreePort(t)
	c.proxy = fmt.Sprintf("http://127.0.0.1:%d", proxy)
	var g errgroup.Group
	g.Go(func() error {
		lasting := "import sqlite3, sys; sqlite3.connect(sys.argv[1]).execute('pragma journal_mode=wal')" // readers don't block writers
		return errors.Join(ran("keystone-manage", "--config-file", conf, "db_sync"), ran("python3", "-c", lasting, filepath.Join(c.dir, "keystone.db")),
			ran("keystone-manage", "--config-file", conf, "fernet_setup", "--keystone-user", "root", "--keystone-group", "root"),
			ran("keystone-manage", "--config-file", conf, "bootstrap", "--bootstrap-password", "testpassword", "--bootstrap-public-url", c.keystone+"/v3", "--bootstrap-internal-url", c.keystone+"/v3", "--bootstrap-region-id", "RegionOne"))
	})
	for kind, port := range ports {
		builder := filepath.Join(c.dir, kind+".builder")
		g.Go(func() error {
			return errors.Join(ran("swift-ring-builder", builder, "create", "4", "1", "0"),
				ran("swift-ring-builder", builder, "add", fmt.Sprintf("r1z1-127.0.0.1:%d/d1", port), "1"), ran("swift-ring-builder", builder, "rebalance"))
		})
	}
	testkit.Must(t, g.Wait())
	c.run(t, "keystone", []string{"OS_KEYSTONE_CONFIG_DIR=" + c.dir, "OS_KEYSTONE_CONFIG_FILES=" + conf}, "uwsgi_python3", "--master", "--need-app", "--die-on-term", "--lazy-apps",
		"--buffer-size", "65535", "--processes", "1", "--http-socket", strings.TrimPrefix(c.keystone, "http://"), "--wsgi-file", "/usr/bin/keystone-wsgi-public",
		"--add-header", "Connection: close", "--pyargv", "--config-file "+conf)
	for kind, port := range ports {
		c.run(t, kind, nil, "swift-"+kind+"-server", c.write(t, kind+"-server.conf", fmt.Sprintf(serverConf, c.dir, port, kind)), "-v")
	}
	c.run(t, "proxy", nil, "swift-proxy-server", c.write(t, "proxy-server.conf", fmt.Sprintf(proxyConf, c.dir, proxy, c.keystone)), "-v")
	c.serves(t, c.keystone+"/v3")
	c.populate(t)
	return c
}

// ran runs a program until it ends.
func ran(program string, args ...string) error {
	out, err := exec.Command(program, args...).CombinedOutput()
	if err != nil && (program != "swift-ring-builder" || cmdCode(err) != 1) { // it exits with 1 on mere warnings
		return fmt.Errorf("%s %v: %w: %s", program, args, err, out)
	}
	return nil
}

func cmdCode(err error) int {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return 0
}

func (c *cloud) write(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(c.dir, name)
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// run starts a service.
func (c *cloud) run(t *testing.T, name string, env []string, program string, args ...string) {
	t.Helper()
	log := testkit.Value(os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), env...), log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	testkit.Must(t, cmd.Start())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.procs[name] = cmd
}

// stop kills a service as a power cut does.
func (c *cloud) stop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cmd := c.procs[name]; cmd != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		delete(c.procs, name)
	}
}

// serves waits until a service responds.
func (c *cloud) serves(t *testing.T, url string) {
	t.Helper()
	testkit.Until(t, 2*time.Minute, 100*time.Millisecond, func() error {
		res, err := http.Get(url)
		if err != nil {
			return err
		}
		return res.Body.Close()
	})
}

// populate creates a project, a user, an application credential, the object store's catalogue entry and a container.
func (c *cloud) populate(t *testing.T) {
	t.Helper()
	var made struct{ Project, User, Service, Role struct{ ID string } }
	var roles struct{ Roles []struct{ ID, Name string } }
	c.token = c.signIn(t, "admin", "admin", "testpassword")
	c.ask(t, c.token, http.MethodPost, "/v3/projects", `{"project": {"name": "demo", "domain_id": "default"}}`, &made)
	c.ask(t, c.token, http.MethodPost, "/v3/users", `{"user": {"name": "jo", "password": "testpassword", "domain_id": "default"}}`, &made)
	c.ask(t, c.token, http.MethodGet, "/v3/roles?name=member", "", &roles)
	c.ask(t, c.token, http.MethodPut, "/v3/projects/"+made.Project.ID+"/users/"+made.User.ID+"/roles/"+roles.Roles[0].ID, "", nil)
	c.ask(t, c.token, http.MethodPost, "/v3/services", `{"service": {"type": "object-store", "name": "swift"}}`, &made)
	c.ask(t, c.token, http.MethodPost, "/v3/endpoints", fmt.Sprintf(`{"endpoint": {"service_id": %q, "interface": "public", "region_id": "RegionOne", "url": %q}}`,
		made.Service.ID, c.proxy+"/v1/AUTH_%(project_id)s"), nil)
	c.project, c.account = made.Project.ID, c.proxy+"/v1/AUTH_"+made.Project.ID
	var cred struct {
		Credential struct{ ID, Secret string } `json:"application_credential"`
	}
	own := c.signIn(t, "demo", "jo", "testpassword")
	c.ask(t, own, http.MethodPost, "/v3/users/"+made.User.ID+"/application_credentials", `{"application_credential": {"name": "backups", "roles": [{"name": "member"}]}}`, &cred)
	c.ID, c.Secret = cred.Credential.ID, cred.Credential.Secret
	testkit.Until(t, time.Minute, 200*time.Millisecond, func() error {
		r := testkit.Value(http.NewRequest(http.MethodPut, c.account+"/demo", nil))(t)
		r.Header.Set("X-Auth-Token", own)
		res, err := http.DefaultClient.Do(r)
		if err == nil && res.StatusCode >= 300 {
			err = errors.New(res.Status)
		}
		if err == nil {
			err = res.Body.Close()
		}
		return err
	})
}

// signIn signs in with a password and returns a token.
func (c *cloud) signIn(t *testing.T, project, user, password string) string {
	t.Helper()
	domain := `"domain": {"id": "default"}`
	res := c.ask(t, "", http.MethodPost, "/v3/auth/tokens", fmt.Sprintf(`{"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": %q, "password": %q, %s}}},
		"scope": {"project": {"name": %q, %s}}}}`, user, password, domain, project, domain), nil)
	return res.Header.Get("X-Subject-Token")
}

// ask makes a call to Keystone that must succeed.
func (c *cloud) ask(t *testing.T, token, method, at, body string, out any) *http.Response {
	t.Helper()
	r := testkit.Value(http.NewRequestWithContext(t.Context(), method, c.keystone+at, bytes.NewBufferString(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Auth-Token", token)
	res, err := http.DefaultClient.Do(r)
	testkit.Must(t, err)
	defer res.Body.Close()
	data := testkit.Value(io.ReadAll(res.Body))(t)
	if res.StatusCode >= 300 {
		t.Fatalf("%s %s: %s: %s", method, at, res.Status, data)
	}
	if out != nil {
		testkit.Must(t, json.Unmarshal(data, out))
	}
	return res
}

// spec returns the Spec of the container demo.
func (c *cloud) spec(t *testing.T) swift.Spec {
	t.Helper()
	return swift.Spec{AuthURL: c.keystone + "/v3", Container: "demo", Prefix: "k8s/a", Region: "RegionOne", CredentialsFile: credential(t, c.ID, c.Secret)}
}

// credential writes an application credential in Horizon's format.
func credential(t *testing.T, id, secret string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "openrc")
	text := "#!/usr/bin/env bash\nexport OS_AUTH_TYPE=v3applicationcredential\nexport OS_APPLICATION_CREDENTIAL_ID=" + id + "\nexport OS_APPLICATION_CREDENTIAL_SECRET=\"" + secret + "\"\n"
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
