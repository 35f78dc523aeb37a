package bed

import (
	"cmp"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Defaults of the bed.
const (
	DefaultRoot    = "/var/lib/naupegos/openstack"
	DefaultAddress = "192.0.2.10"
	region         = "RegionOne"
	tlsRegion      = "RegionTLS" // the same services behind TLS with a certificate of a private authority, without load balancing
)

// Environment variables with the location of the bed.
const (
	RootVariable    = "NAUPEGOS_OPENSTACK_ROOT"
	AddressVariable = "NAUPEGOS_OPENSTACK_ADDRESS"
)

// The clouds of clouds.yaml.
const (
	Cloud      = "naupegos"       // an ordinary user with a project of its own: roles member and load-balancer_member
	AdminCloud = "naupegos-admin" // the cloud's administrator
	TLSCloud   = "naupegos-tls"   // the user and project of Cloud, in the region behind TLS
)

// Options sets the location and time limits of the bed. The zero value gives the defaults.
type Options struct {
	Root    string        // state directory; empty: $NAUPEGOS_OPENSTACK_ROOT, else DefaultRoot
	Cache   string        // directory for initialised state; empty: naupegos in the user's cache directory
	Address string        // where all API services answer; empty: $NAUPEGOS_OPENSTACK_ADDRESS, else DefaultAddress. It is put on the loopback link while the bed runs
	Timeout time.Duration // limit for all of Up; 0: 15 minutes
	Log     io.Writer     // gets progress, a line for each stage; nil: discarded
}

func (o Options) withDefaults() (Options, error) {
	o.Root = cmp.Or(o.Root, os.Getenv(RootVariable), DefaultRoot)
	o.Address = cmp.Or(o.Address, os.Getenv(AddressVariable), DefaultAddress)
	o.Timeout = cmp.Or(o.Timeout, 15*time.Minute)
	if o.Log == nil {
		o.Log = io.Discard
	}
	if !filepath.IsAbs(o.Root) {
		return o, fail.New(fail.Invalid, "the state directory has to be an absolute path").At(o.Root)
	}
	if _, err := netip.ParseAddr(o.Address); err != nil {
		return o, fail.Wrap(fail.Invalid, err, "read the address of the API services")
	}
	if o.Cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return o, fail.Wrap(fail.Invalid, err, "find the cache directory").Do("set XDG_CACHE_HOME")
		}
		o.Cache = filepath.Join(dir, "naupegos")
	}
	return o, nil
}

// ports are the ports on which the bed listens. The API services have OpenStack's default ports on an address of their own. The services behind
// them use unusual ports on 127.0.0.1, so that they do not collide with a database of this machine.
type ports struct{ Database, Broker, BrokerNodes, Epmd, Memcached, Control int }

var inner = ports{Database: 23306, Broker: 25672, BrokerNodes: 25673, Epmd: 24369, Memcached: 21211, Control: 20953}
