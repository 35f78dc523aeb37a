package provider

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/plan"
)

// CloudIntegration is a provider whose cloud serves what runs in the cluster: load balancers for Services, volumes for claims. The cluster
// signs in to it with a credential of its own.
type CloudIntegration interface {
	Housed
	// NoBalancing says why the cloud has no load balancers for Services, and NoVolumes why it has no volumes; empty where it has.
	NoBalancing() string
	NoVolumes() string
	// CACert returns the authorities that sign the cloud's certificate, as PEM; empty where the system's do.
	CACert() (string, error)
	// ClientCertificate returns the certificate and key, as PEM, that the cloud asks every client for; empty where it asks for none.
	ClientCertificate() (cert, key []byte, err error)
	// CloudInfo returns what the cloud's controllers need to know. fail.NotReady where the machines' network is not made yet.
	CloudInfo(ctx context.Context) (CloudInfo, error)
	// EnsureCloudCredential returns a restricted credential that works: have, where it does, else a new one.
	EnsureCloudCredential(ctx context.Context, have *CloudCredential) (CloudCredential, error)
	// NewCloudCredential makes another one, which admits only the calls that the cluster makes where the cloud can hold one to that. unbounded
	// says why it shall not; empty: it shall.
	NewCloudCredential(ctx context.Context, unbounded string) (CloudCredential, error)
	// PeopleCredential makes a credential for somebody who takes the cluster over: for all of the cloud's services, until then.
	PeopleCredential(ctx context.Context, until time.Time) (CloudCredential, error)
	// PruneCloudCredentials deletes the cluster's own but for the IDs to keep, with none to keep those for people too, and returns how many.
	PruneCloudCredentials(ctx context.Context, keep ...string) (int, error)
	// Leftovers lists what the cluster has made in the cloud and is still there.
	Leftovers(ctx context.Context) (Leftovers, error)
	// Volumes lists, of all volumes that the cloud shows, those with these IDs and those that the cluster has made for claims. It changes nothing.
	Volumes(ctx context.Context, ids []string) ([]LeftVolume, error)
	// FreeLeftovers returns the step that removes what Leftovers lists by then, once the machines are gone, which would make these things
	// again; the step DestroyNetworkStep has to wait for it.
	FreeLeftovers(seen Leftovers, keepVolumes bool) *plan.Step
}

// DestroyNetworkStep is the ID of the step of Destroy that removes what machines and load balancer were in.
const DestroyNetworkStep = "destroy-network"

// CloudCredential is a restricted application credential of one cluster: what its cloud controller manager and its volume driver
// sign in with, or somebody who was handed the cluster over. The caller keeps it encrypted. It prints without its secret; only CloudsYAML
// writes that out.
type CloudCredential struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Secret    string   `json:"secret"`
	AuthURL   string   `json:"authURL"`
	Region    string   `json:"region,omitempty"`    // empty: the cloud has one
	Interface string   `json:"interface,omitempty"` // of the services' addresses: "internal", "admin"; empty: public
	ProjectID string   `json:"projectID"`
	UserID    string   `json:"userID"`             // whose it is: it ends when that user does
	Roles     []string `json:"roles,omitempty"`    // that it carries, of those the user has
	Insecure  bool     `json:"insecure,omitempty"` // the cloud's certificate is not checked, as the user's clouds.yaml says
	CACert    string   `json:"caCert,omitempty"`   // PEM of the authorities that sign the cloud's certificate; empty: the system's

	Bounded bool   `json:"bounded,omitempty"` // access rules admit only the calls that the cluster makes
	Reach   string `json:"reach,omitempty"`   // why it reaches the whole project, for people: the cloud could not hold it to access rules, or was not to
}

// String names the credential and hides its secret.
func (c CloudCredential) String() string {
	return fmt.Sprintf("application credential %s (%s)", c.Name, c.ID)
}

// GoString hides the secret from %#v too.
func (c CloudCredential) GoString() string { return c.String() }

// CloudsYAML renders a clouds.yaml with the credential as the cloud of the given name, for handing over. It holds the secret. caFile
// is where CACert will lie beside it; empty: nowhere.
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

// CloudInfo is what the cloud's controllers in a cluster need to know of the cloud beside their credential.
type CloudInfo struct {
	SubnetID          string // of the machines: load balancers have their addresses there
	FloatingNetworkID string // floating IPs of load balancers are taken from it
	IgnoreVolumeZone  bool   // volumes of any availability zone can be attached to any machine
	VolumeZone        string // the one zone that volumes are made in; empty: the zone of the machine
	NoLoadBalancers   bool   // the cloud has no load-balancer service
	LBProvider        string // of load balancers; empty: the cloud's default
	LBMethod          string // by which they spread connections; empty: any
	InternalBalancers bool   // load balancers get no floating IPs: the cloud has no external network
}

// Leftovers are what the cluster itself has made in the cloud: the cloud controller manager for Services of type LoadBalancer, the volume
// driver for PersistentVolumeClaims.
type Leftovers struct {
	LoadBalancers []LeftBalancer
	Volumes       []LeftVolume
}

// LeftBalancer is the load balancer of a Service.
type LeftBalancer struct {
	ID, Name, State, Address string
	Services                 []string // of the cluster, that it was made for: "namespace/name"
	Shared                   bool     // it is somebody else's, or serves somebody else's Services too
	Port                     string   // ID of the one that its address is at
}

// LeftVolume is the volume of a PersistentVolumeClaim.
type LeftVolume struct {
	ID, Name, State string
	GiB             int
	Claim           string // "namespace/name"; empty where the driver does not write it down
	Zone            string
	Stranger        string // ID of a server that is not the cluster's and has it attached; empty: none has
	Own             bool   // the cluster has made it
}

// String tells it for people.
func (b LeftBalancer) String() string {
	return fmt.Sprintf("load balancer %s (%s, %s)", b.Name, b.ID, strings.ToLower(b.State))
}

// String tells it for people.
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

// Keyed is a Provider that gives new machines the key that Naupegos logs in with by something of its own, beside their user-data.
type Keyed interface {
	// SetKey has machines be given another one from now on, as a line of authorized_keys.
	SetKey(publicKey string)
}
