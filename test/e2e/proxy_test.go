//go:build e2e

package e2e_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestProxy: a cluster whose machines reach the outside by a real squid alone. squid sees each request to the outside, and none to the inside; no packet
// leaves the machines but to it.
func TestProxy(t *testing.T) {
	testkit.OnlyFull(t, "unit tests of the proxy's files, and the bundle's download through squid")
	const images, debs = "registry.outside.test", "packages.outside.test"
	o := newOutside(t, "10.76.8", images, debs)
	files, key := packages(t, "harbour")
	web := testkit.Value(net.Listen("tcp4", "127.0.0.1:0"))(t) // squid alone reaches it
	server := &http.Server{Handler: files, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(web) }()
	t.Cleanup(func() { _ = server.Close() })
	registry, _, _ := o.images("", "", "team/app", "team/tool")
	proxy, requests := o.squid(images, debs)
	dropped := o.filtered(proxy)

	r := newRigOn(t, o, "proxied")
	registryHost, repository := fmt.Sprintf("%s:%d", images, registry), fmt.Sprintf("%s:%d", debs, web.Addr().(*net.TCPAddr).Port)
	cluster := size{controlPlanes: 1, workers: 1, extra: fmt.Sprintf("  proxy: {http: \"http://%[1]s\", https: \"http://%[1]s\"}\n  registries:\n    - host: %[2]s\n      ca: %[3]s", o.at(proxy), registryHost, o.indented(8))}
	r.document(cluster)
	r.apply()
	r.answers(t, "app", registryHost+"/team/app:v1", "team/app")
	r.passesItsTest(t)
	for _, m := range r.status().Machines {
		r.must(0, "kubectl", r.name, "--", "get", "--raw", "/api/v1/nodes/"+m.Name+"/proxy/healthz")
	}
	r.must(0, "kubectl", r.name, "--", "logs", "deployment/app") // the API server asks a kubelet

	// A package of the site, by apt. The machines' own sources do not help here: squid ends their requests.
	for _, m := range r.status().Machines {
		r.ssh(m.Name, "truncate -s 0 /etc/apt/sources.list; rm -f /etc/apt/sources.list.d/*")
	}
	cluster.extra += fmt.Sprintf("  machines:\n    packages: [harbour]\n    repositories:\n      - name: site\n        url: http://%s\n        suite: ./\n        key: |\n          %s\n", repository, strings.ReplaceAll(strings.TrimSpace(key), "\n", "\n          "))
	r.document(cluster)
	r.apply()
	for _, m := range r.status().Machines {
		if got := r.look(m.Name, "cat /usr/share/harbour/greeting"); got != "hello\n" {
			t.Errorf("%s has %q of the package", m.Name, got)
		}
	}

	// The operator's own client.
	ca := filepath.Join(r.dir, "ca.crt")
	testkit.Must(t, os.WriteFile(ca, o.ca.PEM(), 0o644))
	set := "e2e-" + r.name
	added := naupegos(t, invocation{env: []string{fmt.Sprintf("HTTPS_PROXY=http://127.0.0.1:%d", proxy), "NO_PROXY=" + o.net + ".0/24"}}, "bundle", "add", "image", registryHost+"/team/tool:v1", "--ca", ca, "--set", set)
	if added.code != 0 {
		t.Fatal(added)
	}
	t.Cleanup(func() {
		if res := naupegos(t, invocation{}, "bundle", "remove", set); res.code != 0 {
			t.Error(res)
		}
	})
	for _, m := range r.status().Machines {
		r.ssh(m.Name, "systemctl restart containerd kubelet")
	}
	r.healthy()
	r.seenBySquid(t, requests, registryHost, repository)
	if what := dropped(); what != "" {
		t.Errorf("machines sent packets around the proxy:\n%s", what)
	}
	r.destroy()
}

// seenBySquid asserts that squid saw each machine ask these two hosts, and this host itself, and no other requests.
func (r *rig) seenBySquid(t *testing.T, requests func() []string, registry, repository string) {
	t.Helper()
	var wanted []string
	for _, m := range r.status().Machines {
		wanted = append(wanted, m.Address+" GET http://"+repository+"/")
	}
	worker := r.status().Machines[len(r.status().Machines)-1].Address
	wanted = append(wanted, worker+" CONNECT "+registry, "127.0.0.1 CONNECT "+registry)
	until(t, time.Minute, time.Second, func() error { // squid logs a tunnel when it ends
		all := requests()
		for _, want := range wanted {
			client, what, _ := strings.Cut(want, " ")
			if !slices.ContainsFunc(all, func(line string) bool { return strings.HasPrefix(line, client+" ") && strings.Contains(line, what) }) {
				return fmt.Errorf("squid saw no %q: %s", want, strings.Join(all, "\n"))
			}
		}
		return nil
	})
	for _, line := range requests() {
		f := strings.Fields(line)
		to := strings.TrimPrefix(f[len(f)-1], "http://")
		if !strings.HasPrefix(to, registry) && !strings.HasPrefix(to, repository) {
			t.Errorf("squid was asked for something inside, or unknown: %s", line)
		}
	}
	t.Logf("FIGURE squid served %d requests", len(requests()))
}
