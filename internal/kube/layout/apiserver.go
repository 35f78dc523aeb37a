package layout

import (
	"cmp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/release/flags"
)

const (
	auditLogDir        = "/var/log/kubernetes/audit"
	auditPolicyPath    = ourDir + "/audit-policy.yaml"
	authenticationPath = ourDir + "/authentication.yaml"
	// EncryptionPath is the path of an API server's EncryptionConfiguration. The file does not exist if the API server has no keys.
	EncryptionPath = ourDir + "/encryption.yaml"
)

// apiServerPod renders the API server's static pod. uses are the machine's files.
func (p Params) apiServerPod(n Node, files fileSet) (machine.File, error) {
	image, err := p.servers(n).image("kube-apiserver")
	if err != nil {
		return machine.File{}, err
	}
	return staticPod{
		name: "kube-apiserver", image: image.Ref, requests: cpu("250m"),
		args:        command(append(p.apiServerBaseArgs(n), p.emulation()...), p.apiServerExtraArgs(p.Servers.tables(p.of(n)))),
		annotations: map[string]string{"kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint": hostPort(n.Address, APIServerPort)},
		port:        APIServerPort, scheme: corev1.URISchemeHTTPS, host: n.Address,
		live: "/livez", ready: "/readyz", startup: "/livez",
		mounts: sortedMounts(apiServerMounts(p)),
		uses: append(asStarted(files).under(pkiDir+"/ca.crt", pkiDir+"/apiserver", pkiDir+"/front-proxy-ca.crt", pkiDir+"/front-proxy-client",
			pkiDir+"/sa.", pkiDir+"/etcd/ca.crt", ourDir+"/"), p.Settings.APIServer.Reads...),
	}.manifest()
}

// apiServerBaseArgs returns the arguments that kubeadm gives every API server.
func (p Params) apiServerBaseArgs(n Node) []arg {
	etcd := "https://" + hostPort("127.0.0.1", EtcdClientPort)
	if p.EtcdMode == EtcdService {
		etcd = strings.Join(p.etcdEndpoints(), ",")
	}
	return []arg{
		{"advertise-address", n.Address},
		{"allow-privileged", "true"},
		p.Authorization.arg(),
		{"client-ca-file", pkiDir + "/ca.crt"},
		{"enable-admission-plugins", "NodeRestriction"},
		{"enable-bootstrap-token-auth", "true"},
		{"etcd-cafile", pkiDir + "/etcd/ca.crt"},
		{"etcd-certfile", pkiDir + "/apiserver-etcd-client.crt"},
		{"etcd-keyfile", pkiDir + "/apiserver-etcd-client.key"},
		{"etcd-servers", etcd},
		{"kubelet-client-certificate", pkiDir + "/apiserver-kubelet-client.crt"},
		{"kubelet-client-key", pkiDir + "/apiserver-kubelet-client.key"},
		{"kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname"},
		{"proxy-client-cert-file", pkiDir + "/front-proxy-client.crt"},
		{"proxy-client-key-file", pkiDir + "/front-proxy-client.key"},
		{"requestheader-allowed-names", "front-proxy-client"},
		{"requestheader-client-ca-file", pkiDir + "/front-proxy-ca.crt"},
		{"requestheader-extra-headers-prefix", "X-Remote-Extra-"},
		{"requestheader-group-headers", "X-Remote-Group"},
		{"requestheader-username-headers", "X-Remote-User"},
		{"secure-port", strconv.Itoa(APIServerPort)},
		{"service-account-issuer", "https://kubernetes.default.svc." + p.DNSDomain},
		{"service-account-key-file", pkiDir + "/sa.pub"},
		{"service-account-signing-key-file", pkiDir + "/sa.key"},
		{"service-cluster-ip-range", p.ServiceCIDR},
		{"tls-cert-file", pkiDir + "/apiserver.crt"},
		{"tls-private-key-file", pkiDir + "/apiserver.key"},
	}
}

// apiServerExtraArgs returns the arguments that Naupegos adds, in kubeadm's ClusterConfiguration as well, so that kubeadm upgrade keeps it. known are
// the tables that the settings must match.
func (p Params) apiServerExtraArgs(known []flags.Table) []arg {
	args := []arg{
		// Anonymous requests reach only health checks and what `kubeadm join` reads before it trusts the server.
		{"authentication-config", authenticationPath},
		// A server that shuts down tells load balancers before it stops accepting connections.
		{"shutdown-delay-duration", "4s"},
		// It then ends its watches, too: otherwise it waits for them until kubelet kills it, half a minute later.
		{"shutdown-watch-termination-grace-period", "5s"},
		// An impostor in a kubelet's place gets no exec and no logs.
		{"kubelet-certificate-authority", pkiDir + "/ca.crt"},
	}
	if len(p.Authorization.Config) > 0 {
		args = append(args, p.Authorization.arg()) // for kubeadm, which then sets no authorization-mode
	}
	if p.AuditLog || p.Settings.AuditWebhook {
		args = append(args, arg{"audit-policy-file", auditPolicyPath})
	}
	if p.AuditLog {
		args = append(args,
			arg{"audit-log-path", auditLogDir + "/audit.log"},
			arg{"audit-log-maxage", strconv.Itoa(cmp.Or(p.AuditOptions.MaxAgeDays, 30))},
			arg{"audit-log-maxbackup", strconv.Itoa(cmp.Or(p.AuditOptions.MaxBackups, 10))},
			arg{"audit-log-maxsize", strconv.Itoa(cmp.Or(p.AuditOptions.MaxSizeMiB, 100))},
		)
	}
	if p.encrypts() {
		args = append(args,
			arg{"encryption-provider-config", EncryptionPath},
			arg{"encryption-provider-config-automatic-reload", "true"},
		)
	}
	if p.Harden {
		args = append(args,
			arg{"enable-admission-plugins", "NodeRestriction,DenyServiceExternalIPs"},
			arg{"event-ttl", "1h0m0s"},
			arg{"profiling", "false"},
			arg{"request-timeout", "1m0s"},
			arg{"service-account-extend-token-expiration", "false"},
			arg{"service-account-lookup", "true"},
			arg{"tls-cipher-suites", strings.Join(tlsCipherSuites(), ",")},
			arg{"tls-min-version", "VersionTLS12"},
		)
	}
	return p.Settings.APIServer.extend(p.Settings.knownPlugins(known).plugins(args), flags.APIServer, known)
}

// apiServerMounts are the mounts of kubeadm and of Naupegos.
func apiServerMounts(p Params) []hostMount {
	mounts := append(caMounts(), directory("k8s-certs", pkiDir, true), directory("naupegos", ourDir, true))
	if p.AuditLog {
		mounts = append(mounts, directory("audit-log", auditLogDir, false))
	}
	return p.Settings.APIServer.mounts(mounts)
}

// apiServerVolumes are the mounts that kubeadm's configuration must name.
func (p Params) apiServerVolumes() []hostMount { return apiServerMounts(p)[len(caMounts())+1:] }
