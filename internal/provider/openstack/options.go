package openstack

import (
	"context"
	"regexp"
	"time"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Calls says how calls to a cloud are made.
type Calls = cloud.Calls

// HostKeyMemory remembers the SSH host keys that were pinned from machines' consoles, which serve them only for some time.
// Keys are in authorized_keys form; a server's UUID is its name there, so that a machine recreated is not taken for the old one.
type HostKeyMemory interface {
	Get(name string) []string
	Set(ctx context.Context, name string, keys []string) error
}

// Options says which cluster's machines a Provider handles.
type Options struct {
	Cluster   *v1alpha1.Cluster // defaulted, valid, of provider openstack
	ClusterID string            // "demo-1a2b3c4d": carried by all that is made, and what it is found by
	BundleID  string            // of what machines are to have of Kubernetes; empty: not known. Images may have it inside
	PublicKey string            // Naupegos' own SSH key, as a line of authorized_keys: the servers' keypair; empty: no keypair
	Home      string            // what Provider.Home said when the cluster was begun: elsewhere everything is refused; empty: not begun
	HostKeys  HostKeyMemory     // nil: host keys are remembered only as long as the Provider lives

	Login  func(context.Context) (provider.NamedCloud, error) // of the credential that the document names; nil: it names none
	Closed bool                                               // files and variables of this host are not for what a document names

	Calls    Calls    // how the cloud is asked. Tests count calls and inject faults with its HTTPClient
	Timeouts Timeouts // zero fields are taken from the document, or have defaults
}

// Timeouts bounds what the provider waits for. Zero means the default.
type Timeouts struct {
	Boot    time.Duration // from the request for a server until it is ACTIVE; default spec.timeouts.machineBoot
	Console time.Duration // until the console log shows host keys; default spec.timeouts.machineBoot
	Volume  time.Duration // until a volume is made from an image; default 10 minutes, or spec.timeouts.machineBoot where that is longer
	Delete  time.Duration // until something that is deleted is gone; default 5 minutes, or as above
	Step    time.Duration // one step on networks, groups and the like, with retries; default 5 minutes
	Poll    time.Duration // between two looks at what is being made; default 1 second
}

var dnsLabel = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,70}[a-z0-9])?$`)

func (o *Options) setDefaults() error {
	switch {
	case !dnsLabel.MatchString(o.ClusterID):
		return fail.New(fail.Invalid, "cluster ID %q is not made of lower-case letters, digits and dashes", o.ClusterID)
	case o.Cluster == nil || o.Cluster.Spec.Provider.OpenStack == nil:
		return fail.New(fail.Invalid, "cluster %s is not of provider openstack", o.ClusterID)
	}
	if o.HostKeys == nil {
		o.HostKeys = &sessionKeys{}
	}
	o.Calls.SetDefaults()
	o.Timeouts.setDefaults(o.Cluster.Spec.Timeouts.MachineBoot.Duration)
	return nil
}

func (t *Timeouts) setDefaults(boot time.Duration) {
	def(&boot, 5*time.Minute)
	def(&t.Boot, boot)
	def(&t.Console, boot)
	def(&t.Volume, max(10*time.Minute, boot))
	def(&t.Delete, max(5*time.Minute, boot))
	def(&t.Step, 5*time.Minute)
	def(&t.Poll, time.Second)
}

func def(d *time.Duration, v time.Duration) {
	if *d == 0 {
		*d = v
	}
}
