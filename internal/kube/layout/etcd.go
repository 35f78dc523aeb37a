package layout

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/pki"
)

const (
	etcdDataDir     = "/var/lib/etcd"
	etcdUser        = "etcd" // owns the data directory; members run as root, as kubeadm's do
	etcdMetricsPort = 2381
)

// Access is how a control-plane machine reaches its own member of etcd.
type Access struct{ URL, CA, Cert, Key string }

// LocalEtcd returns how.
func LocalEtcd() Access {
	return Access{
		URL: "https://" + hostPort("127.0.0.1", EtcdClientPort), CA: pkiDir + "/etcd/ca.crt",
		Cert: pkiDir + "/apiserver-etcd-client.crt", Key: pkiDir + "/apiserver-etcd-client.key",
	}
}

// etcdLayer renders a member of etcd: the certificates, and in service mode the unit. The static pod of stacked mode is
// rendered with the other manifests.
func (p Params) etcdLayer(ctx context.Context, k *pki.PKI, n Node, start EtcdStart) (machine.Config, error) {
	if start.State != "new" && start.State != "existing" {
		return machine.Config{}, fail.New(fail.Internal, "an etcd member starts as new or existing, not %q", start.State).At(n.Name)
	}
	if start.InitialCluster[n.Name] == "" {
		return machine.Config{}, fail.New(fail.Internal, "the machine is not in its own initial etcd cluster").At(n.Name)
	}
	files, err := etcdPKI(ctx, k, n)
	if err != nil {
		return machine.Config{}, err
	}
	c := machine.Config{
		Users:       []string{etcdUser},
		Directories: []machine.Directory{{Path: pkiDir + "/etcd", Mode: 0o755}, {Path: etcdDataDir, Mode: 0o700, Owner: etcdUser + ":" + etcdUser}},
		Files:       files,
	}
	if p.EtcdMode == EtcdStacked {
		return c, nil
	}
	for _, name := range []string{"etcd", "etcdctl", "etcdutl"} {
		b, err := p.of(n).binary(name)
		if err != nil {
			return machine.Config{}, err
		}
		c.Binaries = append(c.Binaries, machine.Binary{Path: binDir + "/" + name, Digest: b.Digest, Size: b.Size})
	}
	watches := []string{binDir + "/etcd"}
	for _, f := range files.under(pkiDir+"/etcd/ca.crt", pkiDir+"/etcd/server", pkiDir+"/etcd/peer") {
		watches = append(watches, f.Path)
	}
	c.Units = []machine.Unit{{Name: "etcd.service", Content: etcdUnit(n, start, p.Settings.etcdArgs(p.of(n).Version)), Enabled: true, Active: true, Watches: watches, Private: true}}
	return c, nil
}

// etcdBaseArgs returns the arguments that kubeadm gives its members.
func etcdBaseArgs(n Node, start EtcdStart) []arg {
	args := []arg{
		{"advertise-client-urls", ClientURL(n)},
		{"cert-file", pkiDir + "/etcd/server.crt"},
		{"client-cert-auth", "true"},
		{"data-dir", etcdDataDir},
		{"feature-gates", "InitialCorruptCheck=true"},
		{"initial-advertise-peer-urls", PeerURL(n)},
		{"initial-cluster", start.cluster()},
		{"key-file", pkiDir + "/etcd/server.key"},
		{"listen-client-urls", "https://" + hostPort("127.0.0.1", EtcdClientPort) + "," + ClientURL(n)},
		{"listen-metrics-urls", "http://" + hostPort("127.0.0.1", etcdMetricsPort)},
		{"listen-peer-urls", PeerURL(n)},
		{"name", n.Name},
		{"peer-cert-file", pkiDir + "/etcd/peer.crt"},
		{"peer-client-cert-auth", "true"},
		{"peer-key-file", pkiDir + "/etcd/peer.key"},
		{"peer-trusted-ca-file", pkiDir + "/etcd/ca.crt"},
		{"snapshot-count", "10000"},
		{"trusted-ca-file", pkiDir + "/etcd/ca.crt"},
		{"watch-progress-notify-interval", "5s"},
	}
	if start.State == "existing" { // as kubeadm: etcd's default is new
		args = append(args, arg{"initial-cluster-state", "existing"})
	}
	return args
}

// etcdExtraArgs returns the arguments that Naupegos adds. Heartbeat and election stay at etcd's defaults.
func etcdExtraArgs() []arg {
	return []arg{
		{"auto-compaction-mode", "periodic"},
		{"auto-compaction-retention", "8h"},
		{"quota-backend-bytes", strconv.Itoa(8 << 30)},
		{"tls-min-version", "TLS1.2"},
	}
}

// cluster renders --initial-cluster, sorted by name.
func (s EtcdStart) cluster() string {
	var members []string
	for _, name := range slices.Sorted(maps.Keys(s.InitialCluster)) {
		members = append(members, name+"="+s.InitialCluster[name])
	}
	return strings.Join(members, ",")
}

// etcdEndpoints returns the client URLs of all members.
func (p Params) etcdEndpoints() []string {
	var urls []string
	for _, n := range p.ControlPlanes {
		urls = append(urls, ClientURL(n))
	}
	return urls
}

func (p Params) etcdConfiguration(r Release) (etcdConfig, error) {
	if p.EtcdMode == EtcdService {
		return etcdConfig{External: &externalEtcd{
			Endpoints: p.etcdEndpoints(),
			CAFile:    pkiDir + "/etcd/ca.crt", CertFile: pkiDir + "/apiserver-etcd-client.crt", KeyFile: pkiDir + "/apiserver-etcd-client.key",
		}}, nil
	}
	tag, err := r.tag("etcd")
	if err != nil {
		return etcdConfig{}, err
	}
	return etcdConfig{Local: &localEtcd{imageMeta: imageMeta{ImageTag: tag}, DataDir: etcdDataDir, ExtraArgs: p.Settings.etcdArgs(r.Version)}}, nil
}

func (p Params) etcdPod(n Node, start EtcdStart, files fileSet) (machine.File, error) {
	image, err := p.of(n).image("etcd")
	if err != nil {
		return machine.File{}, err
	}
	return staticPod{
		name: "etcd", image: image.Ref,
		requests:    corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("100Mi")},
		args:        command(etcdBaseArgs(n, start), p.Settings.etcdArgs(p.of(n).Version)),
		annotations: map[string]string{"kubeadm.kubernetes.io/etcd.advertise-client-urls": ClientURL(n)},
		port:        etcdMetricsPort, scheme: corev1.URISchemeHTTP, host: "127.0.0.1",
		live: "/livez", ready: "/readyz", startup: "/readyz",
		mounts: []hostMount{directory("etcd-data", etcdDataDir, false), directory("etcd-certs", pkiDir+"/etcd", false)},
		uses:   files.under(pkiDir+"/etcd/ca.crt", pkiDir+"/etcd/server", pkiDir+"/etcd/peer"),
	}.manifest()
}

func etcdUnit(n Node, start EtcdStart, extra []arg) string {
	return `[Unit]
Description=etcd
Documentation=https://etcd.io
Wants=network-online.target
After=network-online.target
RequiresMountsFor=/var/lib/etcd

[Service]
Type=notify
ExecStart=/usr/local/bin/etcd ` + strings.Join(command(etcdBaseArgs(n, start), extra), " ") + `
Restart=always
RestartSec=1
# A joining member becomes ready only when it has caught up.
TimeoutStartSec=infinity
LimitNOFILE=65536
OOMScoreAdjust=-997
NoNewPrivileges=yes
PrivateTmp=yes
ProtectHome=yes
ProtectSystem=full

[Install]
WantedBy=multi-user.target
`
}
