package v1alpha1

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// KindServerPolicy is the kind of a ServerPolicy.
const KindServerPolicy = "ServerPolicy"

// ServerPolicy restricts what documents may use of a server and of its network. The administrator of the server writes it.
type ServerPolicy struct {
	// Version of the file format.
	APIVersion string `json:"apiVersion" yaml:"apiVersion" jsonschema:"required,enum=naupegos.dev/v1alpha1"`
	// What this file describes.
	Kind string `json:"kind" yaml:"kind" jsonschema:"required,enum=ServerPolicy"`
	// Providers that documents may name. With local, operating a cluster amounts to root on the server's host. Default: openstack and metal.
	Providers []string `json:"providers,omitempty" yaml:"providers,omitempty"`
	// Networks in which physical machines have their BMCs, such as 10.9.0.0/24. The server connects only to BMCs in these networks. Default: all addresses except loopback, link-local and multicast ones and those of clouds' metadata services.
	BMCNetworks []string `json:"bmcNetworks,omitempty" yaml:"bmcNetworks,omitempty" jsonschema:"maxItems=100"`
	// Rules for clusters. Only the first rule with a matching name applies to a cluster. A cluster without a matching rule may use its own credentials, any release, and the autoscale ports 8086-8185.
	Clusters []ClusterPolicy `json:"clusters,omitempty" yaml:"clusters,omitempty" jsonschema:"maxItems=1000"`
}

// ClusterPolicy is a rule for clusters.
type ClusterPolicy struct {
	// Names of clusters, or patterns such as "prod-*". Default: all.
	Names []string `json:"names,omitempty" yaml:"names,omitempty" jsonschema:"maxItems=1000"`
	// Addresses to which the server may connect without a credential: HOST, HOST:PORT, http://HOST:PORT, or a network such as 10.0.0.0/16. A Vault with method kubernetes needs an entry. If the rule lists any, the addresses of spec.endpoint need entries, too. A credential permits its own hosts.
	Endpoints []string `json:"endpoints,omitempty" yaml:"endpoints,omitempty" jsonschema:"maxItems=1000"`
	// Releases of Kubernetes: a minor such as v1.37, or a full version. Default: all. A cluster may keep the releases that it has.
	Releases []string `json:"releases,omitempty" yaml:"releases,omitempty" jsonschema:"maxItems=100"`
	// Directories of the server that spec.backup.to.directory may name.
	BackupDirectories []string `json:"backupDirectories,omitempty" yaml:"backupDirectories,omitempty" jsonschema:"maxItems=100"`
	// Ports that spec.unattended.autoscalePort may name: FIRST-LAST.
	AutoscalePorts string `json:"autoscalePorts,omitempty" yaml:"autoscalePorts,omitempty" jsonschema:"default=8086-8185"`
	// Allow spec.charts. The server executes a chart's templates in a process with bounds on time and memory; hostile ones can make other documents wait. Default: false.
	Charts bool `json:"charts,omitempty" yaml:"charts,omitempty"`
	// Let operators of a single cluster have the server build what its library lacks, such as a release's bundle (20 minutes of all processors). Default: false.
	Builds bool `json:"builds,omitempty" yaml:"builds,omitempty"`
	// Sets of images of the server's library that spec.registry.sets may name. Default: none; the set "site" serves every cluster.
	ImageSets []string `json:"imageSets,omitempty" yaml:"imageSets,omitempty" jsonschema:"maxItems=100"`
}

// DefaultServerPolicy is the policy of a server that was given none.
func DefaultServerPolicy() *ServerPolicy {
	return &ServerPolicy{APIVersion: APIVersion, Kind: KindServerPolicy, Providers: []string{ProviderOpenStack, ProviderMetal}}
}

// Ports returns the first and the last autoscale port.
func (c *ClusterPolicy) Ports() (first, last int, err error) {
	from, to, ok := strings.Cut(c.AutoscalePorts, "-")
	if !ok {
		to = from
	}
	first, err = strconv.Atoi(from)
	last, bad := strconv.Atoi(to)
	if err != nil || bad != nil || first < 1 || last < first || last > 65535 {
		return 0, 0, fmt.Errorf("is not a range of ports")
	}
	return first, last, nil
}

// For returns the rule that applies to a cluster.
func (p *ServerPolicy) For(cluster string) ClusterPolicy {
	for _, c := range p.Clusters {
		if len(c.Names) == 0 || MatchesAny(c.Names, cluster) {
			return c
		}
	}
	var none ClusterPolicy
	applyDefaults(reflect.ValueOf(&none).Elem())
	return none
}

// MatchesAny reports whether a name equals or matches one of the patterns.
func MatchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		fits, err := path.Match(p, name)
		return fits && err == nil
	})
}

// Default fills in what the policy leaves out.
func (p *ServerPolicy) Default() { applyDefaults(reflect.ValueOf(p).Elem()) }
