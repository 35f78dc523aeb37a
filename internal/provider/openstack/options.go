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

// Calls configures the calls to a cloud.
type Calls = cloud.Calls

// HostKeyMemory stores SSH host keys that were pinned from machines' consoles, because a console shows them only for some time. Keys are in
// authorized_keys form. They are stored under the server's UUID, so that a recreated machine is not mistaken for the old one.
type HostKeyMemory interface {
	Get(name string) []string
	Set(ctx context.Context, name string, keys []string) error
}

// Options configures a Provider for one cluster.
type Options struct {
	Cluster   *v1alpha1.Cluster // defaulted, valid, of provider openstack
	ClusterID string            // for example "demo-1a2b3c4d"; every resource carries it and is found by it
	BundleID  string            // the Kubernetes bundle for the machines, which images may contain; empty: unknown
	PublicKey string            // Naupegos' own SSH key as a line of authorized_keys, for the servers' keypair; empty: no keypair
	Home      string            // result of Provider.Home when the cluster was begun: any other place is refused; empty: not begun
	HostKeys  HostKeyMemory     // nil: host keys are kept only in the Provider

	Login  func(context.Context) (provider.NamedCloud, error) // reads the credential that the document names; nil: it names none
	Closed bool                                               // never log in with files and variables of this host, only with a credential that the document names

	Calls    Calls    // settings of the calls to the cloud. Tests count calls and inject faults with its HTTPClient
	Timeouts Timeouts // zero fields come from the document, or have defaults
}

// Timeouts bounds the waits of the provider. Zero means the default.
type Timeouts struct {
	Boot    time.Duration // from the request for a server until it is ACTIVE; default spec.timeouts.machineBoot
	Console time.Duration // until the console log shows host keys; default spec.timeouts.machineBoot
	Volume  time.Duration // until a volume is made from an image; default 10 minutes, or spec.timeouts.machineBoot if longer
	Delete  time.Duration // until a deleted resource is gone; default 5 minutes, or spec.timeouts.machineBoot if longer
	Step    time.Duration // one step on networks, groups and the like, with retries; default 5 minutes
	Poll    time.Duration // pause between two polls; default 1 second
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
