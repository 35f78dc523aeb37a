package layout

import (
	"context"
	"fmt"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
)

// Sandbox is an etcd member and an API server that run below one directory of this host, reachable only on loopback, with the authorities, keys and
// settings of the cluster's own.
type Sandbox struct {
	Files     []machine.File // their files, by path on this host
	Member    string         // the name of the etcd member
	Peer      string         // its peer URL
	Data      string         // its data directory
	Etcd      []string       // arguments of etcd
	APIServer []string       // arguments of kube-apiserver
}

// SandboxPorts are the ports of a sandbox on loopback.
type SandboxPorts struct{ Client, Peer, API int }

// sandboxAddress is the address that the sandbox's API server advertises. No client uses it: it is a documentation address (RFC 5737).
const sandboxAddress = "192.0.2.1"

// egress prevents the API server from connecting to anything but etcd: its proxy is a socket that does not exist. Otherwise objects of a backup could
// name addresses that this host reaches: APIServices, and webhooks that convert custom resources.
const egress = `apiVersion: apiserver.k8s.io/v1beta1
kind: EgressSelectorConfiguration
egressSelections:
- name: cluster
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %[1]q}}}
- name: controlplane
  connection: {proxyProtocol: HTTPConnect, transport: {uds: {udsName: %[1]q}}}
- name: etcd
  connection: {proxyProtocol: Direct}
`

const egressPath = ourDir + "/egress.yaml"

// NoProxy is the name of the socket that is missing in a sandbox. Errors of its API server contain it.
const NoProxy = "nothing-is-called-from-a-sandbox"

// Sandbox renders a sandbox below a directory. It disables everything that would reach outside: webhooks, aggregated APIs, the records of API
// servers, the audit log.
func (p Params) Sandbox(ctx context.Context, k *pki.PKI, dir string, ports SandboxPorts) (Sandbox, error) {
	n := Node{Name: "sandbox", Address: "127.0.0.1"}
	p.ControlPlanes, p.EtcdMode, p.AuditLog, p.CNI = []Node{n}, EtcdStacked, false, CNINone
	p.Endpoint = hostPort(n.Address, ports.API)
	if err := p.Check(); err != nil {
		return Sandbox{}, err
	}
	s := Sandbox{Member: n.Name, Peer: "https://" + hostPort(n.Address, ports.Peer), Data: path.Join(dir, "data")}
	p.Settings = Settings{} // it serves a backup, as far as the defaults can read it
	files, err := p.controlPlanePKI(ctx, k, n)
	if err != nil {
		return s, err
	}
	member, err := etcdPKI(ctx, k, n)
	if err != nil {
		return s, err
	}
	server, err := p.apiServerFiles(ctx, k, n)
	if err != nil {
		return s, err
	}
	for _, f := range append(append(files, member...), server...) {
		f.Path, f.Mode = below(dir, f.Path), 0o600
		s.Files = append(s.Files, f)
	}
	s.Files = append(s.Files, machine.File{Path: below(dir, egressPath), Mode: 0o600, Content: fmt.Appendf(nil, egress, below(dir, NoProxy))})
	client, start := "https://"+hostPort(n.Address, ports.Client), EtcdStart{InitialCluster: map[string]string{s.Member: s.Peer}, State: "new"}
	silent := slices.DeleteFunc(etcdBaseArgs(n, start), func(a arg) bool { return a.Name == "listen-metrics-urls" })
	s.Etcd = moved(dir, command(silent, override(etcdExtraArgs(), []arg{
		{"advertise-client-urls", client}, {"listen-client-urls", client}, {"data-dir", s.Data},
		{"initial-advertise-peer-urls", s.Peer}, {"listen-peer-urls", s.Peer}, {"auto-compaction-retention", "0"}, {"log-level", "warn"},
	})))
	only := []arg{
		{"bind-address", n.Address}, {"secure-port", strconv.Itoa(ports.API)}, {"advertise-address", sandboxAddress}, {"etcd-servers", client},
		{"endpoint-reconciler-type", "none"}, {"shutdown-delay-duration", "0s"},
		{"enable-admission-plugins", "NodeRestriction"}, // named once: hardening adds only checks of writes
		{"disable-admission-plugins", "MutatingAdmissionWebhook,ValidatingAdmissionWebhook,MutatingAdmissionPolicy,ValidatingAdmissionPolicy"},
		{"event-ttl", "87600h"}, {"request-timeout", "10m0s"}, {"egress-selector-config-file", egressPath},
	}
	s.APIServer = moved(dir, command(override(append(p.apiServerBaseArgs(n), p.emulation()...), p.apiServerExtraArgs(nil)), only))
	return s, nil
}

// override returns arguments in which later ones replace earlier ones of the same name.
func override(base, extra []arg) []arg {
	kept := slices.DeleteFunc(slices.Clone(base), func(b arg) bool {
		return slices.ContainsFunc(extra, func(e arg) bool { return e.Name == b.Name })
	})
	return append(kept, extra...)
}

// below returns the path in a sandbox of a machine's file.
func below(dir, file string) string { return path.Join(dir, file) }

// moved returns arguments with the sandbox's paths instead of a machine's.
func moved(dir string, args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		name, value, _ := strings.Cut(a, "=")
		if strings.HasPrefix(value, kubernetesDir+"/") {
			value = below(dir, value)
		}
		out[i] = fmt.Sprintf("%s=%s", name, value)
	}
	return out
}

// SandboxURL returns the URL of the sandbox's API server or etcd.
func SandboxURL(port int) string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}
