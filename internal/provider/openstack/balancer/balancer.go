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

// Options configures a Keeper: the cluster whose load balancer it keeps, and its access to the rest of the cluster.
type Options struct {
	Names    marks.Names
	Octavia  *v1alpha1.Octavia // the document's settings of the load balancer; nil: it wants none
	Port     int               // port of the API
	Timeouts Timeouts
	Floating Floating

	Cloud   func(context.Context) (*cloud.Cloud, error)
	Subnet  func(context.Context) (subnets.Subnet, error) // the machines' subnet; fail.NotReady before it exists
	CIDR    func() string                                 // CIDR of that subnet if it is known without a call to the cloud; otherwise empty
	Machine func(ctx context.Context, name string) (provider.Machine, error)
}

// Timeouts bounds the waits of a Keeper.
type Timeouts struct {
	Boot   time.Duration // until a change is carried out
	Delete time.Duration // until a load balancer is gone
	Step   time.Duration // allowance of a step for everything else
	Poll   time.Duration // pause between two polls
}

// Floating manages the floating IP, or its absence, that the document wants for the load balancer's address.
type Floating interface {
	// Lack describes how the floating IP of a port differs from the wanted state; empty if it does not.
	Lack(portID string) string
	// AskConsent makes a step require consent if Ensure would release or detach an address.
	AskConsent(s *plan.Step, portID string)
	// Ensure attaches the wanted floating IP to a port, or removes it if none is wanted.
	Ensure(ctx context.Context, portID string) error
	// Forget makes the cached floating IPs uncertain, so that they are listed again, because a port that one may have led to is gone.
	Forget()
}

// Keeper keeps a cluster's load balancer as the document wants it. Octavia takes one change at a time, and so does a Keeper.
type Keeper struct {
	opts Options

	changing sync.Mutex // serializes changes of the load balancer
	lost     string     // address of a deleted load balancer that was in ERROR; its replacement gets the same address

	mu          sync.Mutex
	seen        *State // nil: there is none
	unavailable string
}

// New returns the keeper of a cluster's load balancer. It makes no call.
func New(o Options) *Keeper { return &Keeper{opts: o} }

// Unavailable returns why the project cannot use load balancers, according to the last Observe; empty if it can.
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

// sorted returns the strings sorted and without duplicates.
func sorted(s []string) []string { return slices.Compact(slices.Sorted(slices.Values(s))) }
