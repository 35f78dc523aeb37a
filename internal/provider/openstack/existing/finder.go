package existing

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/flavors"
	"github.com/gophercloud/gophercloud/v2/openstack/image/v2/images"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/subnets"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Finder finds and remembers the existing resources that one document names. It is safe for concurrent use.
type Finder struct {
	spec  *v1alpha1.OpenStack
	cloud func(context.Context) (*cloud.Cloud, error)
	lacks *cloud.Lacks

	mu       sync.Mutex
	external string
	subnet   *subnets.Subnet
	router   string
	flavors  []flavors.Flavor // nil: not listed yet
	images   map[string]images.Image

	groups         map[string]string                 // IDs of security groups by the document's names
	places         map[v1alpha1.MachineNetwork]Place // of additional ports
	open           map[string]bool                   // networks by ID, and whether their ports are not filtered
	floatingSubnet string

	volumeZones, serverZones []listedZone // nil: not asked yet
}

// New returns a Finder for a document's settings of the cloud. It makes no call.
func New(spec *v1alpha1.OpenStack, cloud func(context.Context) (*cloud.Cloud, error), lacks *cloud.Lacks) *Finder {
	return &Finder{spec: spec, cloud: cloud, lacks: lacks}
}

var uuid = regexp.MustCompile(`^[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}$`)

// identified gets a resource by UUID if name is one (in either case), because lists omit shared, hidden and community resources. ok is false
// if name is not a UUID or no resource has it.
func identified[T any](name string, get func(id string) (*T, error)) (found T, ok bool, err error) {
	id := strings.ToLower(name)
	if !uuid.MatchString(id) {
		return found, false, nil
	}
	t, err := get(id)
	if cloud.Gone(err) {
		return found, false, nil
	}
	if err != nil {
		return found, false, err
	}
	return *t, true, nil
}

// called returns the items with the given name or, if there are none, those with that ID. An empty name matches every item.
func called[T any](all []T, name string, marks func(T) (id, name string)) []T {
	if name == "" {
		return all
	}
	for _, is := range []func(T) bool{
		func(t T) bool { _, n := marks(t); return n == name },
		func(t T) bool { id, _ := marks(t); return id == name },
	} {
		if fit := slices.DeleteFunc(slices.Clone(all), func(t T) bool { return !is(t) }); len(fit) > 0 {
			return fit
		}
	}
	return nil
}

// Listed joins names for display, sorted and without duplicates.
func Listed(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(names))), ", ")
}

// byName returns a name as part of a sentence; empty for an empty name.
func byName(name string) string {
	if name == "" {
		return ""
	}
	return " called " + name
}
