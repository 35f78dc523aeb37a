package layout

import (
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
	"github.com/naupegos/naupegos/internal/release"
)

// Where etcd runs.
const (
	EtcdStacked = "stacked" // as a static pod on every control-plane machine
	EtcdService = "service" // as a systemd unit on every control-plane machine
)

// The supported pod networks.
const (
	CNIFlannel = "flannel"
	CNINone    = "none" // the user installs a network
)

// Params holds the properties that all machines of a cluster share, from which their configurations are rendered.
type Params struct {
	ClusterName string // also the cluster's name in kubeconfigs
	Endpoint    string // host:port at which clients outside the control plane reach the API
	PodCIDR     string // "10.244.0.0/16"
	// NodeCIDRMaskSize is the prefix length of each node's part of PodCIDR; 0: 24.
	NodeCIDRMaskSize int
	ServiceCIDR      string   // "10.96.0.0/16"
	DNSDomain        string   // "cluster.local"
	Release          Release  // of the cluster: recorded in it, and used for its add-ons
	Servers          Servers  // release of API servers, controller managers and schedulers; zero: their machine's
	Ahead            Release  // release whose files machines hold in advance; zero: none
	EtcdMode         string   // EtcdStacked or EtcdService
	ControlPlanes    []Node   // all of them; the first one bootstraps and keeps super-admin.conf
	APIServerSANs    []string // further names and addresses of the API server
	CNI              string   // CNIFlannel or CNINone

	AuditLog     bool     // keep an audit log on control-plane machines
	AuditOptions AuditLog // settings of the audit log
	// Encryption lists the providers by which API servers read Secrets in etcd: names of keys, and Plaintext. API servers write with the first. Empty
	// means Plaintext.
	Encryption []string
	Harden     bool // the CIS benchmark's settings that go beyond kubeadm's defaults
	// ExternalCloud says that a cloud controller manager sets nodes' addresses, zones and provider IDs. Kubelets register nodes with the taint
	// node.cloudprovider.kubernetes.io/uninitialized, which the manager removes; until then, only pods that tolerate the taint run. The API server
	// and kube-controller-manager of these releases need no flag for it.
	ExternalCloud bool
	// ExternalCA says that no machine holds the authorities' keys, so that nothing in the cluster signs certificates. Kubelets then get their
	// certificates from Naupegos, as everything else does, and do not renew them.
	ExternalCA bool
	// SharedKernel says that some machine shares its host's kernel (a container). kube-proxy, which has one configuration for all machines, then
	// leaves global kernel settings alone. Kubelets use the facts of their own machine.
	SharedKernel bool

	Settings Settings // the document's settings of the programs
	Issuers  []byte   // the field jwt of the AuthenticationConfiguration, as YAML; empty without issuers
	// Authorization is how API servers authorize requests, if not by Node and RBAC alone.
	Authorization Authorization

	Resolvers []Resolver // those of all roles and pools: CoreDNS reads them when its pods start

	Unattended bool                // kubelets' serving certificates are not approved
	AgentPath  string              // of naupegos-agent on machines
	Machines   map[string][]string // addresses of every machine by node name, for the approval of kubelets' serving certificates
}

// AuditLog holds the settings of an audit log. Zero values mean the defaults.
type AuditLog struct {
	MaxAgeDays int    // default 30
	MaxBackups int    // rotated files; default 10
	MaxSizeMiB int    // of one file; default 100
	Policy     string // YAML of an audit.k8s.io/v1 Policy; default: the one in manifests/
}

// Node is a machine in Kubernetes.
type Node struct {
	Name    string            // the node's name; kubelet gets it as a flag if the host's name differs
	Address string            // address at which the other machines reach it
	Labels  map[string]string // set at registration; labels that kubelets may not set themselves are left out
	Taints  []corev1.Taint    // set at registration
	Facts   machine.Facts
	Release Release       // release that the machine runs; zero: the cluster's
	Cloud   CloudInstance // the machine's server in the cloud; zero if there is no cloud or the server is not known yet
	// Kubelet holds the settings of the machine's kubelet; nil: the cluster's.
	Kubelet *Program
	// Schedulable lets ordinary pods run on a control-plane machine. Otherwise a machine without Taints gets the usual one.
	Schedulable bool
	// Resolver holds the document's name servers for the machine.
	Resolver Resolver
	// ResolvConf is the resolv.conf that pods inherit otherwise; empty means /etc/resolv.conf. With systemd-resolved it is /run/systemd/resolve/resolv.conf.
	ResolvConf string
}

// EtcdStart says how a machine's etcd member starts for the first time; afterwards etcd ignores it. It must not change during the machine's life,
// because a changed manifest restarts the member.
type EtcdStart struct {
	InitialCluster map[string]string // peer URLs by member name
	State          string            // "new" or "existing"
}

// The ports of a control plane.
const (
	APIServerPort  = 6443
	EtcdClientPort = 2379
	EtcdPeerPort   = 2380
)

// PeerURL returns the URL at which other members reach n's etcd.
func PeerURL(n Node) string { return "https://" + hostPort(n.Address, EtcdPeerPort) }

// ClientURL returns the URL at which clients reach n's etcd.
func ClientURL(n Node) string { return "https://" + hostPort(n.Address, EtcdClientPort) }

// NewEtcd returns the start of a new etcd cluster of all control planes at once.
func (p Params) NewEtcd() EtcdStart {
	s := EtcdStart{InitialCluster: map[string]string{}, State: "new"}
	for _, n := range p.ControlPlanes {
		s.InitialCluster[n.Name] = PeerURL(n)
	}
	return s
}

func hostPort(host string, port int) string { return net.JoinHostPort(host, strconv.Itoa(port)) }

// endpointHost returns the host of the endpoint.
func (p Params) endpointHost() string {
	host, _, err := net.SplitHostPort(p.Endpoint)
	if err != nil {
		return p.Endpoint
	}
	return host
}

// serviceAddress returns the nth address of the service network: 1 is the API server's, 10 is DNS's.
func (p Params) serviceAddress(n int) string {
	a := netip.MustParsePrefix(p.ServiceCIDR).Masked().Addr() // Check has parsed it
	for range n {
		a = a.Next()
	}
	return a.String()
}

// Check reports problems with p as defects of the caller: users' input has been validated before.
func (p Params) Check() error {
	var wrong []string
	note := func(bad bool, what string) {
		if bad {
			wrong = append(wrong, what)
		}
	}
	note(p.ClusterName == "", "the cluster's name is empty")
	_, port, err := net.SplitHostPort(p.Endpoint)
	note(err != nil || port == "", "the endpoint "+strconv.Quote(p.Endpoint)+" is not host:port")
	_, err = p.Release.wants()
	note(err != nil, "the version "+strconv.Quote(p.Release.Version)+" is not of a supported minor: "+strings.Join(release.Minors(), ", "))
	for what, cidr := range map[string]string{"pod": p.PodCIDR, "service": p.ServiceCIDR} {
		_, err := netip.ParsePrefix(cidr)
		note(err != nil, "the "+what+" network "+strconv.Quote(cidr)+" is not a CIDR")
	}
	note(p.DNSDomain == "", "the DNS domain is empty")
	note(p.EtcdMode != EtcdStacked && p.EtcdMode != EtcdService, "the etcd mode "+strconv.Quote(p.EtcdMode)+" is not known")
	note(p.CNI != CNIFlannel && p.CNI != CNINone, "the pod network "+strconv.Quote(p.CNI)+" is not known")
	note(len(p.ControlPlanes) == 0, "there is no control-plane machine")
	if len(wrong) == 0 {
		return nil
	}
	slices.Sort(wrong)
	return fail.New(fail.Internal, "render the cluster's configuration: %s", strings.Join(wrong, "; "))
}
