package policy_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/api/v1alpha1/validation"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/place"
	"github.com/naupegos/naupegos/internal/policy"
	"github.com/naupegos/naupegos/internal/testkit"
)

// memory is Secrets in memory.
type memory map[string]string

func (m memory) Get(_ context.Context, name string) ([]byte, error) {
	v, ok := m[name]
	if !ok {
		return nil, fail.New(fail.NotFound, "the server has no secret %s", name)
	}
	return []byte(v), nil
}

func (m memory) Put(_ context.Context, name string, value []byte) error {
	m[name] = string(value)
	return nil
}

func (m memory) PutIfAbsent(ctx context.Context, name string, value []byte) ([]byte, error) {
	if _, ok := m[name]; !ok {
		m[name] = string(value)
	}
	return m.Get(ctx, name)
}

func (m memory) Delete(_ context.Context, name string) error { delete(m, name); return nil }

func (m memory) Names(context.Context) ([]string, error) { return slices.Sorted(maps.Keys(m)), nil }

func parse(t *testing.T, name, spec string) *v1alpha1.Cluster {
	t.Helper()
	if spec = strings.TrimSpace(spec); !strings.Contains(spec, "endpoint: {") {
		spec += "\nendpoint: {kind: direct}"
	}
	spec += "\ncontrolPlane: {replicas: 1, schedulable: true}"
	text := "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: " + name + "}\nspec:\n  " + strings.ReplaceAll(spec, "\n", "\n  ") + "\n"
	return testkit.Value(validation.Parse("x", []byte(text)))(t)
}

// TestPolicy: for each use of the host, a document that is refused, and one that is allowed by what the administrator has defined.
func TestPolicy(t *testing.T) {
	rules := testkit.Value(validation.ParseServerPolicy("p", []byte(`apiVersion: naupegos.dev/v1alpha1
kind: ServerPolicy
providers: [hosts, openstack, metal]
clusters:
- names: [prod-*]
  endpoints: [vault.example.org:8200, 10.0.0.0/8]
  releases: [v1.37]
  backupDirectories: [/srv/backups]
  autoscalePorts: "9000"
  charts: true
  imageSets: [web]
`)))(t)
	creds := policy.NewCredentials(memory{"authority": "other secrets are no credentials"})
	for _, c := range []policy.Credential{
		{Name: "vault", For: []string{"vault.example.org:8200"}, Clusters: []string{"prod-*", "demo"}},
		{Name: "s3", For: []string{"s3.example.org"}, Clusters: []string{"demo"}},
		{Name: "swift", For: []string{"http://keystone:5000"}, Clusters: []string{"demo"}},
		{Name: "cloud", For: []string{"keystone"}, Clusters: []string{"demo"}},
		{Name: "racks", For: []string{"10.0.0.0/24", "10.9.0.1:22"}, Clusters: []string{"demo"}},
		{Name: "others", For: []string{"s3.example.org"}, Clusters: []string{"other"}},
	} {
		testkit.Must(t, creds.Add(t.Context(), c, []byte("value"), false))
	}
	const (
		metal  = "provider: {metal: {}}\n"
		vault  = metal + "pki: {issuer: {vault: {address: '%s', mount: pki/demo, auth: {%s}}}}"
		bucket = metal + "backup: {to: {s3: {endpoint: '%s', bucket: abc, %s}}}"
		swift  = metal + "backup: {to: {swift: {authURL: '%s', container: abc, %s}}}"
		hosts  = "provider: {hosts: {%s, trustOnFirstUse: true, machines: [{address: %s, role: control-plane}]}}\nendpoint: {kind: direct}"
	)
	for _, c := range []struct{ cluster, spec, want string }{
		{"demo", metal, ""},
		{"demo", "provider: {local: {}}", "spec.provider.local: the server's policy: provider local is not allowed"},
		{"demo", fmt.Sprintf(vault, "https://vault.example.org:8200", "credential: vault"), ""},
		{"demo", fmt.Sprintf(vault, "https://vault.example.org", "credential: vault"), "credential vault is not bound to https://vault.example.org:443"},
		{"demo", fmt.Sprintf(vault, "https://evil.net:8200", "credential: vault"), "spec.pki.issuer.vault.address: the server's policy: credential vault is not bound to https://evil.net:8200"},
		{"demo", fmt.Sprintf(vault, "http://127.0.0.1:8200", "credential: vault"), "credential vault is not bound to http://127.0.0.1:8200"},
		{"demo", fmt.Sprintf(vault, "https://vault.example.org:8200", "method: token"), "spec.pki.issuer.vault.auth.credential: the server's policy: no credential is named"},
		{"demo", fmt.Sprintf(vault, "https://vault.example.org:8200", "credentialsFile: /etc/passwd"), "spec.pki.issuer.vault.auth.credentialsFile: the server's policy: documents may not name files"},
		{"demo", fmt.Sprintf(vault, "https://vault.example.org:8200", "method: appRole"), "no credential is named"},
		{"demo", fmt.Sprintf(vault, "https://vault.example.org:8200", "method: kubernetes, role: x"), "cluster demo may not connect to https://vault.example.org:8200 from the server"},
		{"prod-a", fmt.Sprintf(vault, "https://vault.example.org:8200", "method: kubernetes, role: x"), ""},
		{"prod-a", fmt.Sprintf(vault, "https://evil.net:8200", "method: kubernetes, role: x"), "may not connect to"},
		{"demo", fmt.Sprintf(bucket, "https://s3.example.org", "credential: s3"), ""},
		{"demo", fmt.Sprintf(bucket, "http://s3.example.org", "credential: s3"), "credential s3 is not bound to http://s3.example.org:80"},
		{"demo", fmt.Sprintf(bucket, "https://s3.example.org", "credential: others"), "cluster demo has no credential others"},
		{"demo", fmt.Sprintf(bucket, "https://s3.example.org", "credential: none"), "cluster demo has no credential none"},
		{"demo", fmt.Sprintf(bucket, "https://s3.example.org", "credentialsFile: /root/.aws/credentials"), "documents may not name files"},
		{"demo", fmt.Sprintf(bucket, "https://s3.example.org", "region: x"), "no credential is named"},
		{"prod-a", fmt.Sprintf(bucket, "https://10.0.0.1", "region: x"), "no credential is named"},
		{"demo", fmt.Sprintf(swift, "http://keystone:5000/v3", "credential: swift"), ""},
		{"demo", fmt.Sprintf(swift, "https://keystone:5000/v3", "credential: swift"), "credential swift is not bound to https://keystone:5000"},
		{"demo", fmt.Sprintf(swift, "http://keystone:5000/v3", "region: x"), "no credential is named"},
		{"demo", "provider: {openstack: {credential: cloud, machine: {flavor: a, image: b}}}", ""},
		{"demo", "provider: {openstack: {cloud: prod, machine: {flavor: a, image: b}}}", "spec.provider.openstack.credential: the server's policy: no credential is named"},
		{"demo", fmt.Sprintf(hosts, "credential: racks", "10.0.0.7"), ""},
		{"demo", fmt.Sprintf(hosts, "credential: racks, port: 2222", "10.9.0.1"), "credential racks is not bound to ssh://10.9.0.1:2222"},
		{"demo", fmt.Sprintf(hosts, "credential: racks", "10.0.1.7"), "spec.provider.hosts.machines[0].address: the server's policy: credential racks is not bound to ssh://10.0.1.7:22"},
		{"demo", fmt.Sprintf(hosts, "sshKeyFile: /root/.ssh/id_rsa", "10.0.0.7"), "spec.provider.hosts.sshKeyFile: the server's policy: documents may not name files"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, sshAgent: true", "10.0.0.7"), "spec.provider.hosts.sshAgent: the server's policy: documents may not use environment variables, the SSH agent or the terminal"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, sshConfig: /root/.ssh/config", "10.0.0.7"), "spec.provider.hosts.sshConfig: the server's policy: documents may not name files"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, sudoPassword: {file: /etc/shadow}", "10.0.0.7"), "spec.provider.hosts.sudoPassword.file: the server's policy: documents may not name files"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, sudoPassword: {env: HOME}", "10.0.0.7"), "spec.provider.hosts.sudoPassword.env: the server's policy: documents may not use environment variables"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, sudoPassword: {prompt: true}", "10.0.0.7"), "spec.provider.hosts.sudoPassword.prompt: the server's policy: documents may not use"},
		{"demo", fmt.Sprintf(hosts, "credential: racks", "10.0.0.7, sudoPassword: {env: HOME}"), "machines[0].sudoPassword.env: the server's policy: documents may not use environment variables"},
		{"demo", fmt.Sprintf(hosts, "credential: racks", "10.0.0.7, sshKeyFile: /root/.ssh/id_rsa"), "machines[0].sshKeyFile: the server's policy: documents may not name files"},
		{"demo", fmt.Sprintf(hosts, "credential: racks", "10.0.0.7, sshAddress: 10.0.0.8"), ""},
		{"demo", fmt.Sprintf(hosts, "credential: racks", "10.0.0.7, sshAddress: evil.net"), "machines[0].sshAddress: the server's policy: credential racks is not bound to ssh://evil.net:22"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, port: 2222", "10.9.0.1, port: 22"), ""},
		{"demo", fmt.Sprintf(hosts, "credential: racks", "10.9.0.1, port: 6443"), "machines[0].address: the server's policy: credential racks is not bound to ssh://10.9.0.1:6443"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, bastions: [{address: 10.0.0.1}]", "10.0.0.7"), ""},
		{"demo", fmt.Sprintf(hosts, "credential: racks, bastions: [{address: 10.0.0.1, sshKeyFile: /k}]", "10.0.0.7"), "bastions[0].sshKeyFile: the server's policy: documents may not name files"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, port: 2222, bastions: [{address: 10.9.0.1, port: 23}]", "10.0.0.7"), "bastions[0].address: the server's policy: credential racks is not bound to ssh://10.9.0.1:23"},
		{"demo", fmt.Sprintf(hosts, "credential: racks, port: 2222, bastions: [{address: 10.9.0.1}]", "10.0.0.7"), ""},
		{"demo", metal + "backup: {to: {directory: /srv/backups}}", "may not use directory /srv/backups"},
		{"prod-a", metal + "backup: {to: {directory: /srv/backups/}}", ""},
		{"prod-a", metal + "backup: {to: {directory: /srv/backups/x}}", "may not use directory"},
		{"demo", metal + "unattended: {autoscale: true, autoscalePort: 443}\nworkers: [{name: a, maxReplicas: 3}]", "cluster demo may not use port 443 of the server"},
		{"demo", metal + "unattended: {autoscale: true}\nworkers: [{name: a, maxReplicas: 3}]", ""},
		{"prod-a", metal + "unattended: {autoscale: true, autoscalePort: 9000}\nworkers: [{name: a, maxReplicas: 3}]", ""},
		{"prod-a", metal + "unattended: {autoscale: true, autoscalePort: 8086}\nworkers: [{name: a, maxReplicas: 3}]", "may not use port 8086"},
		{"prod-a", metal, ""},
		{"demo", metal + "charts: [{name: web, chart: web.tgz}]", "spec.charts: the server's policy: cluster demo may not have charts"},
		{"prod-a", metal + "charts: [{name: web, chart: web.tgz}]", ""},
		{"demo", metal + "registry: {sets: [site, web]}", "spec.registry.sets[1]: the server's policy: cluster demo may not use the set web"},
		{"prod-a", metal + "registry: {sets: [web]}", ""},
		{"demo", metal + "registry: {}", ""},
		{"prod-a", metal + "kubernetes: {version: v1.36.0}", "cluster prod-a may not run Kubernetes v1.36.0"},
		{"demo", metal + "kubernetes: {version: v1.36.0}", ""},
		{"demo", metal + "endpoint: {address: localhost}", "spec.endpoint.address: the server's policy: cluster demo may not connect to https://localhost:6443 from the server"},
		{"demo", metal + "endpoint: {address: a.localhost}", "may not connect to"},
		{"demo", metal + "endpoint: {address: 'api.example.org:443'}", ""},
		{"prod-a", metal + "endpoint: {address: 'api.example.org:443'}", "may not connect to"},
		{"prod-a", metal + "endpoint: {address: '10.3.0.1:6443'}", ""},
	} {
		err := policy.New(rules).Check(t.Context(), creds, parse(t, c.cluster, c.spec), nil)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s %s: %v", c.cluster, c.spec, err)
		case c.want != "" && err == nil:
			t.Errorf("%s %s: allowed, want %s", c.cluster, c.spec, c.want)
		case c.want != "":
			testkit.Fails(t, err, fail.Refused, c.want)
		}
	}
	was := parse(t, "prod-a", metal+"kubernetes: {version: v1.36.0}")
	testkit.Must(t, policy.New(rules).Check(t.Context(), creds, was, was)) // a cluster keeps the release that it has
}

// TestCredentials: a value goes to its hosts and clusters only, and is in no list and no error.
func TestCredentials(t *testing.T) {
	in := memory{}
	creds, to := policy.NewCredentials(in), policy.HostAt("https", "Vault.example.org.", 8200)
	c := policy.Credential{Name: "vault", For: []string{"vault.example.org:8200"}, Clusters: []string{"prod-*"}}
	testkit.Must(t, creds.Add(t.Context(), c, []byte("hunter2"), false))
	testkit.Fails(t, creds.Add(t.Context(), c, []byte("hunter3"), false), fail.Conflict, "--replace")
	if v := testkit.Value(creds.Find(t.Context(), "prod-a", "vault", to))(t); string(v) != "hunter2" {
		t.Errorf("the value is %q", v)
	}
	testkit.Must(t, creds.Add(t.Context(), c, []byte("hunter3"), true))
	for _, bad := range []struct {
		cluster, name string
		to            place.Address
		kind          fail.Kind
		want          string
	}{
		{"demo", "vault", to, fail.Unauthorized, "cluster demo has no credential vault"},
		{"prod-a", "s3", to, fail.Unauthorized, "cluster prod-a has no credential s3"},
		{"prod-a", "vault", policy.HostAt("https", "vault.example.org", 443), fail.Refused, "is not bound to"},
		{"prod-a", "vault", policy.HostAt("http", "vault.example.org", 8200), fail.Refused, "is not bound to"},
	} {
		_, err := creds.Find(t.Context(), bad.cluster, bad.name, bad.to)
		testkit.Fails(t, err, bad.kind, bad.want)
		if strings.Contains(err.Error(), "hunter") {
			t.Errorf("the error shows the value: %v", err)
		}
	}
	if all := testkit.Value(creds.List(t.Context()))(t); len(all) != 1 || strings.Contains(fmt.Sprint(all), "hunter") {
		t.Errorf("the list is %v", all)
	}
	in["credential/vault"] = "hunter"
	_, err := creds.Find(t.Context(), "prod-a", "vault", to)
	testkit.Fails(t, err, fail.Internal, "credential vault is damaged")
	testkit.Must(t, creds.Remove(t.Context(), "vault"))
	testkit.Fails(t, creds.Remove(t.Context(), "vault"), fail.NotFound, "there is no credential vault")
	for _, bad := range []policy.Credential{
		{Name: "A", For: c.For, Clusters: c.Clusters}, {Name: "../x", For: c.For, Clusters: c.Clusters}, {Name: "a", Clusters: c.Clusters},
		{Name: "a", For: c.For}, {Name: "a", For: []string{"*"}, Clusters: c.Clusters}, {Name: "a", For: c.For, Clusters: []string{"a b"}},
	} {
		testkit.Fails(t, creds.Add(t.Context(), bad, []byte("x"), false), fail.Invalid)
	}
	testkit.Fails(t, creds.Add(t.Context(), c, []byte(" \n"), false), fail.Invalid, "is empty")
	testkit.Fails(t, creds.Add(t.Context(), c, make([]byte, 1<<20), false), fail.Invalid)
}

// TestBMC: without a list, a BMC may have every address but loopback, link-local and metadata addresses; with one, only addresses of its networks.
func TestBMC(t *testing.T) {
	for text, allowed := range map[string][2]bool{
		"10.9.0.11": {true, true}, "192.0.2.1": {true, false}, "127.0.0.1": {false, false}, "::1": {false, false}, "169.254.169.254": {false, false},
		"fe80::1": {false, false}, "fd00:ec2::254": {false, false}, "fd20:ce::254": {false, false}, "fd00:ec2::253": {true, false}, "100.100.100.200": {false, false}, "0.0.0.0": {false, false}, "169.254.7.1": {false, true},
	} {
		for i, networks := range [][]string{nil, {"10.9.0.0/24", "169.254.7.0/24"}} {
			rules := v1alpha1.DefaultServerPolicy()
			rules.BMCNetworks = networks
			if got := policy.New(rules).BMC(netip.MustParseAddr(text)); got != allowed[i] {
				t.Errorf("%s with networks %v: %v", text, networks, got)
			}
		}
	}
	_, err := validation.ParseServerPolicy("policy.yaml", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: ServerPolicy\nbmcNetworks: [10.9.0.0/24, 10.9.0.1/24, x]\n"))
	testkit.Fails(t, err, fail.Invalid, "bmcNetworks[1]", "bmcNetworks[2]", "policy.yaml:3")
}

// TestReplacedCredentialsKeepTheirLimit: a credential with paths gets a new value only with paths, unless it was removed before or is damaged.
func TestReplacedCredentialsKeepTheirLimit(t *testing.T) {
	in := memory{}
	creds := policy.NewCredentials(in)
	c := policy.Credential{Name: "vault", For: []string{"vault.example.org:8200"}, Clusters: []string{"prod-*"}}
	limited := c
	limited.Paths = []string{"pki/{cluster}", "kv/a"}
	testkit.Must(t, creds.Add(t.Context(), limited, []byte("hunter2"), true))
	testkit.Fails(t, creds.Add(t.Context(), c, []byte("hunter3"), true), fail.Refused, "--path 'pki/{cluster}' --path 'kv/a'", "naupegos server credential remove vault")
	testkit.Fails(t, creds.Within(t.Context(), "prod-a", "vault", "pki/prod-b"), fail.Refused)
	limited.Paths = []string{"pki/prod-a"}
	testkit.Must(t, creds.Add(t.Context(), limited, []byte("hunter3"), true))
	testkit.Must(t, creds.Remove(t.Context(), "vault"))
	testkit.Must(t, creds.Add(t.Context(), c, []byte("hunter3"), true))
	testkit.Must(t, creds.Add(t.Context(), limited, []byte("hunter3"), true))
	in["credential/vault"] = "damaged"
	testkit.Must(t, creds.Add(t.Context(), c, []byte("hunter3"), true))
}

// TestPathsOfCredentials: a credential with paths serves only the mounts, buckets and containers at and below them.
func TestPathsOfCredentials(t *testing.T) {
	const head = "apiVersion: naupegos.dev/v1alpha1\nkind: Cluster\nmetadata: {name: prod-a}\nspec:\n  endpoint: {kind: address, address: 'k8s.example.org:6443'}\n  provider: {metal: {}}\n  workers: [{name: w}]\n"
	const vault = head + "  pki: {issuer: {vault: {address: 'https://at.example.org:8200', mount: %s, auth: {method: token, credential: c}}}}\n"
	const s3 = head + "  backup: {to: {s3: {endpoint: 'https://at.example.org:8200', bucket: %s, credential: c}}}\n"
	const proxy = head + "  proxy: {http: 'http://at.example.org:8200', https: 'http://at.example.org:8200', auth: {credential: c}}\n"
	for _, c := range []struct {
		doc, where string
		paths      []string
		refused    string
	}{
		{vault, "pki/prod-a", nil, ""},
		{vault, "pki/prod-a", []string{"pki/{cluster}"}, ""},
		{vault, "pki/prod-a/2026", []string{"pki/{cluster}"}, ""},
		{vault, "pki/prod-b", []string{"pki/{cluster}"}, "path pki/prod-b"},
		{vault, "pki/prod-ab", []string{"pki/{cluster}"}, "path pki/prod-ab"},
		{vault, "pki", []string{"pki/{cluster}"}, "path pki"},
		{vault, "pki/prod-a, namespace: team-b", []string{"team-a", "pki/{cluster}"}, "path team-b/pki/prod-a"},
		{vault, "pki/prod-a, namespace: team-a", []string{"team-a/pki/{cluster}"}, ""},
		{s3, "backups, prefix: site-a", []string{"backups/site-a"}, ""},
		{s3, "backups", []string{"backups/{cluster}"}, ""},
		{s3, "backups, prefix: site-b", []string{"backups/site-a"}, "path backups/site-b/prod-a"},
		{s3, "others, prefix: site-a", []string{"backups/site-a"}, "path others/site-a/prod-a"},
		{proxy, "", []string{"pki/{cluster}"}, "can't be used here"},
	} {
		text := c.doc
		if c.where != "" {
			text = fmt.Sprintf(c.doc, c.where)
		}
		doc := testkit.Value(validation.Parse("test", []byte(text)))(t)
		creds := policy.NewCredentials(memory{})
		cred := policy.Credential{Name: "c", For: []string{"at.example.org:8200", "http://at.example.org:8200"}, Clusters: []string{"prod-*"}, Paths: c.paths}
		testkit.Must(t, creds.Add(t.Context(), cred, []byte("hunter2"), false))
		err := policy.New(v1alpha1.DefaultServerPolicy()).Check(t.Context(), creds, doc, nil)
		if c.refused == "" && err != nil {
			t.Errorf("%s with paths %q: %v", c.where, c.paths, err)
		} else if c.refused != "" {
			testkit.Fails(t, err, fail.Refused, c.refused, "credential")
		}
	}
	for _, bad := range []string{"", "/", "/pki", "pki/", "pki/../other", "pki//a", "pki/*", "pki/{name}", ".", "a b"} {
		err := policy.NewCredentials(memory{}).Add(t.Context(), policy.Credential{Name: "c", For: []string{"a.example.org"}, Clusters: []string{"a"}, Paths: []string{bad}}, []byte("x"), false)
		testkit.Fails(t, err, fail.Invalid, "--path")
	}
}

// TestBackupsOfAnotherInADirectory: a document's directory shows another cluster's backups only if that cluster may use it, too.
func TestBackupsOfAnotherInADirectory(t *testing.T) {
	rules := testkit.Value(validation.ParseServerPolicy("p", []byte(`apiVersion: naupegos.dev/v1alpha1
kind: ServerPolicy
providers: [metal]
clusters:
- names: [prod-*]
  backupDirectories: [/srv/backups]
`)))(t)
	doc := testkit.Value(validation.ParseFilledIn("x", []byte(`apiVersion: naupegos.dev/v1alpha1
kind: Cluster
metadata: {name: prod-a}
spec:
  provider: {metal: {}}
  endpoint: {kind: direct}
  controlPlane: {replicas: 1, schedulable: true}
  backup: {to: {directory: /srv/backups}}
`)))(t)
	p, creds := policy.New(rules), policy.NewCredentials(memory{})
	testkit.Must(t, p.Check(t.Context(), creds, doc, nil))
	testkit.Must(t, p.CheckBackupsOf(t.Context(), creds, doc, "prod-b"))
	testkit.Fails(t, p.CheckBackupsOf(t.Context(), creds, doc, "harbour"), fail.Refused, "spec.backup.to.directory", "cluster harbour may not use directory /srv/backups")
}

// TestBuilds: operators of a single cluster have bundles built only where the rule of the cluster allows it.
func TestBuilds(t *testing.T) {
	rules := testkit.Value(validation.ParseServerPolicy("p", []byte("apiVersion: naupegos.dev/v1alpha1\nkind: ServerPolicy\nclusters: [{names: [lab-*], builds: true}, {names: [prod-*]}]\n")))(t)
	for name, allowed := range map[string]bool{"lab-1": true, "prod-1": false, "other": false} {
		doc := &v1alpha1.Cluster{}
		doc.Metadata.Name = name
		err := policy.New(rules).CheckBuild(doc, "v1.37.2")
		if allowed {
			testkit.Must(t, err)
			continue
		}
		testkit.Fails(t, err, fail.Refused, "spec.kubernetes.version: the server's policy:", "no bundle of Kubernetes v1.37.2", name, "naupegos bundle pull", "builds: true")
	}
}
