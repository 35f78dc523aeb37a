package balancer

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/plan"
	"github.com/naupegos/naupegos/internal/provider"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/marks"
)

// Options says which cluster's load balancer a Keeper keeps, and whom it asks about the rest of the cluster.
type Options struct {
	Names    marks.Names
	Octavia  *v1alpha1.Octavia // what the document says of the load balancer; nil: it wants none
	Port     int               // the API's
	Timeouts Timeouts
	Floating Floating

	Cloud   func(context.Context) (*cloud.Cloud, error)
	Subnet  func(context.Context) (subnets.Subnet, error) // of the machines; fail.NotReady where it is not made yet
	CIDR    func() string                                 // of that subnet as far as it is known without asking; empty where it is not
	Machine func(ctx context.Context, name string) (provider.Machine, error)
}

// Timeouts bounds what a Keeper waits for.
type Timeouts struct {
	Boot   time.Duration // for a change to be carried out
	Delete time.Duration // for a load balancer to be gone
	Step   time.Duration // what a step takes besides
	Poll   time.Duration // from look to look
}

// Floating is the floating IP, or its absence, that the document wants for the load balancer's address.
type Floating interface {
	// Lack says what of the floating IP of a port is not as wanted; empty: nothing.
	Lack(portID string) string
	// AskConsent makes a step ask for consent to give an address back, or to take one off, where Ensure would.
	AskConsent(s *plan.Step, portID string)
	// Ensure has the wanted floating IP, or none, lead to a port.
	Ensure(ctx context.Context, portID string) error
	// Forget drops what is known of floating IPs, because a port is gone that one may have led to.
	Forget()
}

// Keeper keeps a cluster's load balancer as the document wants it. Octavia takes one change at a time, and so does a Keeper.
type Keeper struct {
	opts Options

	changing sync.Mutex // held while the load balancer is changed
	lost     string     // address of a load balancer that was deleted because Octavia had given it up: the next one gets it

	mu          sync.Mutex
	seen        *State // nil: there is none
	unavailable string
}

// New returns the keeper of a cluster's load balancer. It asks nobody.
func New(o Options) *Keeper { return &Keeper{opts: o} }

// Unavailable says why the cloud gives the project no load balancers, as the last Observe found; empty: it does.
func (k *Keeper) Unavailable() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.unavailable
}

func (k *Keeper) setUnavailable(why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unavailable = why
}

// sorted returns the strings in order, each once.
func sorted(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }
