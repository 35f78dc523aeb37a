package addon

import (
	"fmt"
	"path"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// CloudConf is cloud.conf, which the cloud controller manager and the Cinder CSI driver read.
type CloudConf struct {
	AuthURL          string // Keystone's URL for machines: "https://keystone.example.org:5000/v3"
	Region           string
	CredentialID     string // of the cluster's restricted application credential
	CredentialSecret string
	CAFile           string // CA certificates of the cloud, in AuthoritiesDir; empty: public authorities
	Insecure         bool   // do not check the cloud's certificates
	EndpointType     string // "public", "internal", "admin"; empty: public
	ClientCert       bool   // the cloud requires client certificates: use OpenStack.ClientCert

	SubnetID             string // subnet of the machines, in which load balancers get their addresses
	FloatingNetworkID    string // external network of load balancers' floating IPs; empty: the controller finds one
	FloatingSubnetID     string // its subnet of floating IPs; empty: the cloud chooses
	NoLoadBalancers      bool   // the cloud has no Octavia, and the controller would not start without this setting
	InternalLB           bool   // Services get addresses in the machines' subnet, without floating IPs
	LBProvider           string // of Octavia; empty: the cloud's default
	LBMethod             string // how load balancers distribute connections; empty: the controller's default
	ManageSecurityGroups bool   // let Services open their NodePorts on machines; false if the workers' security group does
	IgnoreVolumeZone     bool   // volumes are reachable from every zone; see OpenStack.VolumeZone
	Classes              []BalancerClass
}

// BalancerClass is a class of load balancers that Services can choose. Empty fields have the value for all Services.
type BalancerClass struct {
	Name                                string
	FloatingNetworkID, FloatingSubnetID string
	FloatingSubnetTags                  []string
	NetworkID, SubnetID                 string
}

// Render returns cloud.conf, which contains a secret. It returns fail.Internal if a required value is missing, or if a value would not be read back
// unchanged.
func (c CloudConf) Render() ([]byte, error) {
	var b strings.Builder
	var bad []string
	section := func(name string) { fmt.Fprintf(&b, "[%s]\n", name) }
	put := func(key, value string) {
		if strings.ContainsAny(value, "\n\r\x00") {
			bad = append(bad, key)
		}
		if value != "" {
			fmt.Fprintf(&b, "%s = \"%s\"\n", key, strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value))
		}
	}
	flag := func(key string, on bool) {
		if on {
			fmt.Fprintf(&b, "%s = true\n", key)
		}
	}
	if c.CAFile != "" && path.Dir(c.CAFile) != AuthoritiesDir { // the controllers would not see it
		bad = append(bad, "ca-file")
	}
	section("Global")
	put("auth-url", c.AuthURL)
	put("region", c.Region)
	put("application-credential-id", c.CredentialID)
	put("application-credential-secret", c.CredentialSecret)
	put("ca-file", c.CAFile)
	if c.ClientCert {
		put("cert-file", configDir+clientCertKey)
		put("key-file", configDir+clientKeyKey)
	}
	put("os-endpoint-type", c.EndpointType)
	flag("tls-insecure", c.Insecure)
	section("LoadBalancer")
	if c.NoLoadBalancers {
		b.WriteString("enabled = false\n")
	}
	put("subnet-id", c.SubnetID)
	put("floating-network-id", c.FloatingNetworkID)
	put("floating-subnet-id", c.FloatingSubnetID)
	flag("internal-lb", c.InternalLB)
	put("lb-provider", c.LBProvider)
	put("lb-method", c.LBMethod)
	flag("manage-security-groups", c.ManageSecurityGroups)
	for _, class := range c.Classes {
		section(`LoadBalancerClass "` + class.Name + `"`)
		put("floating-network-id", class.FloatingNetworkID)
		put("floating-subnet-id", class.FloatingSubnetID)
		put("floating-subnet-tags", strings.Join(class.FloatingSubnetTags, ","))
		put("network-id", class.NetworkID)
		put("subnet-id", class.SubnetID)
	}
	section("BlockStorage")
	flag("ignore-volume-az", c.IgnoreVolumeZone)
	// request-timeout applies to every call, despite the section's name. On a busy cloud, its default of a minute ends the call that creates a load
	// balancer before the response; the retry then creates a second one of the same name, and the Service never gets its load balancer.
	section("Metadata")
	put("request-timeout", "5m")
	for key, value := range map[string]string{"auth-url": c.AuthURL, "application-credential-id": c.CredentialID, "application-credential-secret": c.CredentialSecret} {
		if value == "" {
			bad = append(bad, key)
		}
	}
	if len(bad) > 0 {
		return nil, fail.New(fail.Internal, "cloud.conf: no proper value for %s", strings.Join(bad, ", "))
	}
	return []byte(b.String()), nil
}
