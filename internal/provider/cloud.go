package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/plan"
)

// CloudIntegration is a provider whose cloud offers services to the cluster: load balancers for Services, volumes for claims. The cluster logs
// in to the cloud with its own credential.
type CloudIntegration interface {
	Housed
	// NoBalancing returns why the cloud offers no load balancers for Services, and NoVolumes why it offers no volumes; empty if it does.
	NoBalancing() string
	NoVolumes() string
	// CACert returns the PEM certificates of the cloud's certificate authorities; empty for the system's.
	CACert() (string, error)
	// ClientCertificate returns the PEM certificate and key that the cloud requires of every client; empty if it requires none.
	ClientCertificate() (cert, key []byte, err error)
	// CloudInfo returns the settings of the cloud's controllers, or fail.NotReady before the machines' network exists.
	CloudInfo(ctx context.Context) (CloudInfo, error)
	// EnsureCloudCredential returns a valid restricted credential: have if it still works, else a new one.
	EnsureCloudCredential(ctx context.Context, have *CloudCredential) (CloudCredential, error)
	// NewCloudCredential makes another credential, which admits only the cluster's calls if the cloud supports that. A non-empty unbounded
	// asks for a credential without this restriction, and gives the reason.
	NewCloudCredential(ctx context.Context, unbounded string) (CloudCredential, error)
	// PeopleCredential makes a credential for a person who takes the cluster over: for all of the cloud's services, valid until the given
	// time.
	PeopleCredential(ctx context.Context, until time.Time) (CloudCredential, error)
	// PruneCloudCredentials deletes the cluster's credentials except those in keep, without keep also those for people, and returns their
	// number.
	PruneCloudCredentials(ctx context.Context, keep ...string) (int, error)
	// Leftovers lists the remaining resources that the cluster itself made in the cloud.
	Leftovers(ctx context.Context) (Leftovers, error)
	// Volumes lists the visible volumes that have one of these IDs or that the cluster made for claims. It changes nothing.
	Volumes(ctx context.Context, ids []string) ([]LeftVolume, error)
	// FreeLeftovers returns the step that removes the resources that Leftovers lists when the step runs, but volumes only if seen has them and
	// keepVolumes is not set. It must run after the machines are gone, which would recreate them, and before the step DestroyNetworkStep.
	FreeLeftovers(seen Leftovers, keepVolumes bool) *plan.Step
}

// DestroyNetworkStep is the ID of the step of Destroy that removes the network of machines and load balancer.
const DestroyNetworkStep = "destroy-network"

// CloudCredential is a restricted application credential of one cluster: the login of its cloud controller manager and volume driver, or of a
// person who took the cluster over. The caller stores it encrypted. It prints without its secret, which only CloudsYAML writes.
type CloudCredential struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Secret    string   `json:"secret"`
	AuthURL   string   `json:"authURL"`
	Region    string   `json:"region,omitempty"`    // empty: the cloud has only one
	Interface string   `json:"interface,omitempty"` // of the services' addresses: "internal", "admin"; empty: public
	ProjectID string   `json:"projectID"`
	UserID    string   `json:"userID"`             // its owner: it expires with that user
	Roles     []string `json:"roles,omitempty"`    // its subset of the user's roles
	Insecure  bool     `json:"insecure,omitempty"` // don't verify the cloud's certificate, as in the user's clouds.yaml
	CACert    string   `json:"caCert,omitempty"`   // PEM of the cloud's certificate authorities; empty: the system's

	Bounded bool   `json:"bounded,omitempty"` // access rules admit only the cluster's calls
	DNS     bool   `json:"dns,omitempty"`     // they admit the calls of external-dns too
	Reach   string `json:"reach,omitempty"`   // why it has no access rules and covers the whole project, for display
}

// String names the credential and hides its secret.
func (c CloudCredential) String() string {
	return fmt.Sprintf("application credential %s (%s)", c.Name, c.ID)
}

// GoString hides the secret from %#v too.
func (c CloudCredential) GoString() string { return c.String() }

// CloudsYAML renders a clouds.yaml with the credential as the cloud of the given name, for handing over. It contains the secret. caFile is the
// path of CACert next to it; empty: none.
func (c CloudCredential) CloudsYAML(cloud, caFile string) ([]byte, error) {
	type auth struct {
		AuthURL string `yaml:"auth_url"`
		ID      string `yaml:"application_credential_id"`
		Secret  string `yaml:"application_credential_secret"`
	}
	type entry struct {
		AuthType           string `yaml:"auth_type"`
		Auth               auth   `yaml:"auth"`
		Region             string `yaml:"region_name,omitempty"`
		Interface          string `yaml:"interface,omitempty"`
		IdentityAPIVersion int    `yaml:"identity_api_version"`
		Verify             *bool  `yaml:"verify,omitempty"`
		CACert             string `yaml:"cacert,omitempty"`
	}
	e := entry{
		AuthType: "v3applicationcredential", Auth: auth{AuthURL: c.AuthURL, ID: c.ID, Secret: c.Secret},
		Region: c.Region, Interface: c.Interface, IdentityAPIVersion: 3,
	}
	if c.Insecure {
		no := false
		e.Verify = &no
	}
	if c.CACert != "" {
		e.CACert = caFile
	}
	return yaml.Marshal(map[string]map[string]entry{"clouds": {cloud: e}})
}

// CloudInfo holds the settings, besides the credential, of the cloud's controllers in a cluster.
type CloudInfo struct {
	SubnetID          string // of the machines, and of load balancers' addresses
	FloatingNetworkID string // source of load balancers' floating IPs
	IgnoreVolumeZone  bool   // volumes of any availability zone can be attached to any machine
	VolumeZone        string // the zone of all volumes; empty: the zone of the machine
	NoLoadBalancers   bool   // the cloud has no load-balancer service
	LBProvider        string // of load balancers; empty: the cloud's default
	LBMethod          string // their method of distributing connections; empty: any
	InternalBalancers bool   // load balancers get no floating IPs: the cloud has no external network
	FloatingSubnetID  string // subnet of their floating IPs; empty: the cloud chooses
	BalancerClasses   []BalancerClass
}

// BalancerClass is a class of load balancers that Services can choose. Empty fields have the value for all Services.
type BalancerClass struct {
	Name                                string
	FloatingNetworkID, FloatingSubnetID string
	FloatingSubnetTags                  []string
	NetworkID, SubnetID                 string
}

// Leftovers are resources that the cluster itself made in the cloud: the cloud controller manager's for Services of type LoadBalancer, the
// volume driver's for PersistentVolumeClaims.
type Leftovers struct {
	LoadBalancers []LeftBalancer
	Volumes       []LeftVolume
}

// LeftBalancer is the load balancer of a Service.
type LeftBalancer struct {
	ID, Name, State, Address string
	Services                 []string // the cluster's Services that it serves: "namespace/name"
	Shared                   bool     // belongs to others, or serves Services of others too
	Port                     string   // ID of the port with its address
}

// LeftVolume is the volume of a PersistentVolumeClaim.
type LeftVolume struct {
	ID, Name, State string
	GiB             int
	Claim           string // "namespace/name"; empty if the driver does not record it
	Zone            string
	Stranger        string // ID of a server outside the cluster that has it attached; empty: none
	Own             bool   // made by the cluster
}

// String describes the load balancer for display.
func (b LeftBalancer) String() string {
	return fmt.Sprintf("load balancer %s (%s, %s)", b.Name, b.ID, strings.ToLower(b.State))
}

// String describes the volume for display.
func (v LeftVolume) String() string {
	s := fmt.Sprintf("volume %s (%s, %d GiB, %s)", v.Name, v.ID, v.GiB, v.State)
	if v.Claim != "" {
		s += " of claim " + v.Claim
	}
	if v.Stranger != "" {
		s += ", attached to server " + v.Stranger + ", which is not the cluster's"
	}
	return s
}

// Keyed is a Provider that gives new machines Naupegos' SSH key through a resource of its own, besides their user-data.
type Keyed interface {
	// SetKey sets the key of future machines, as a line of authorized_keys.
	SetKey(publicKey string)
}
