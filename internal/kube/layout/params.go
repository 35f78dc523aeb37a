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

// The pod networks that are known.
const (
	CNIFlannel = "flannel"
	CNINone    = "none" // somebody else brings one
)

// Params is what the machines of one cluster have in common: what their configurations are rendered from.
type Params struct {
	ClusterName   string   // also the cluster's name in kubeconfigs
	Endpoint      string   // host:port at which the API is reached by everyone but the control plane itself
	PodCIDR       string   // "10.244.0.0/16"
	ServiceCIDR   string   // "10.96.0.0/16"
	DNSDomain     string   // "cluster.local"
	Release       Release  // of the cluster: what is recorded of it and installed into it
	Servers       Servers  // what API servers, controller managers and schedulers run; zero: what their machine runs
	Ahead         Release  // what lies on machines ahead of its use; zero: nothing
	EtcdMode      string   // EtcdStacked or EtcdService
	ControlPlanes []Node   // all of them; the first one bootstraps and keeps super-admin.conf
	APIServerSANs []string // further names and addresses of the API server
	CNI           string   // CNIFlannel or CNINone

	AuditLog     bool     // keep an audit log on control-plane machines
	AuditOptions AuditLog // how it is kept
	// Encryption lists by what API servers read Secrets in etcd: names of keys, and Plaintext. They write by the first. Empty means Plaintext.
	Encryption []string
	Harden     bool // the CIS benchmark's settings that go beyond kubeadm's defaults
	// ExternalCloud says that a cloud controller manager tells nodes' addresses, zones and provider IDs: kubelets register them
	// with the taint node.cloudprovider.kubernetes.io/uninitialized, which it takes away. Nothing but what tolerates that taint
	// runs before. The API server and kube-controller-manager of these releases need no flag for it.
	ExternalCloud bool
	// ExternalCA says that the authorities' keys are elsewhere, on no machine: nothing in the cluster signs certificates. Kubelets have theirs from
	// us then, as everything else does, and renew none.
	ExternalCA bool
	// SharedKernel says that some machine shares its host's kernel (a container): kube-proxy, which is configured for all at once, leaves
	// global kernel settings alone. Kubelets go by what their own machine is.
	SharedKernel bool

	Settings Settings // what the document says of the programs
	Issuers  []byte   // the field jwt of the AuthenticationConfiguration, as YAML; empty without issuers

	Unattended bool                // nobody approves kubelets' serving certificates
	AgentPath  string              // of naupegos-agent on machines
	Machines   map[string][]string // addresses of every machine by node name, by which kubelets' serving certificates are approved
}

// AuditLog says how an audit log is kept. Zero values mean the defaults.
type AuditLog struct {
	MaxAgeDays int    // default 30
	MaxBackups int    // rotated files; default 10
	MaxSizeMiB int    // of one file; default 100
	Policy     string // YAML of an audit.k8s.io/v1 Policy; default: the one in manifests/
}

// Node is one machine as Kubernetes will know it.
type Node struct {
	Name    string            // the node's name; where the host's name is another, the kubelet is told
	Address string            // where the other machines reach it
	Labels  map[string]string // given at registration; those that kubelets may not give themselves are left out
	Taints  []corev1.Taint    // given at registration
	Facts   machine.Facts
	Release Release       // what the machine runs; zero where it is the cluster's
	Cloud   CloudInstance // what the machine is in the cloud; zero where there is none or it is not known yet
	// Kubelet is how the machine's kubelet runs, where it is not as the cluster's.
	Kubelet *Program
	// Schedulable lets ordinary pods onto a machine of the control plane: without Taints it gets the usual one otherwise.
	Schedulable bool
	// ResolvConf is the resolv.conf that pods inherit from; empty means /etc/resolv.conf. Where systemd-resolved runs it is
	// /run/systemd/resolve/resolv.conf.
	ResolvConf string
}

// EtcdStart says how a machine's etcd member starts for the first time; afterwards etcd ignores it. It must stay the same
// as long as the machine lives, for a changed manifest restarts the member.
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

// PeerURL returns the URL at which the other members reach n's etcd.
func PeerURL(n Node) string { return "https://" + hostPort(n.Address, EtcdPeerPort) }

// ClientURL returns the URL at which n's etcd is reached by clients.
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

// Check reports what is wrong with p, as a defect of the caller: users' input has been validated before.
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
