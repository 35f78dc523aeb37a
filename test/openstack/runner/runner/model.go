package runner

import (
	"net/netip"
	"time"
)

// server is the part of a Nova server that the runner uses.
type server struct {
	ID      string
	Name    string
	Project string
	Status  string // Nova's: ACTIVE, SHUTOFF, …
	Image   string // Glance's ID; empty if the server boots from a volume
	Volumes []string
	Updated time.Time
}

// place is the location of a server in Neutron.
type place struct {
	Network string // its ID
	Address netip.Addr
}

// subnet is the IPv4 subnet of a Neutron network.
type subnet struct {
	Network string
	Name    string // the network's name
	Prefix  netip.Prefix
	Gateway netip.Addr
}

// floating is a floating IP that is associated with a port.
type floating struct {
	Address, Fixed netip.Addr
}

// balancer is an Octavia load balancer with its children.
type balancer struct {
	ID        string
	Name      string
	Network   string // of the VIP
	VIP       netip.Addr
	Listeners []listener
}

type listener struct {
	ID       string
	Protocol string // TCP, HTTP, HTTPS (passed through)
	Port     int
	Limit    int // of connections; -1: none
	Allowed  []string
	Client   time.Duration // timeouts; 0: Octavia's default
	Connect  time.Duration
	Member   time.Duration
	Pool     *pool
}

type pool struct {
	ID          string
	Protocol    string // TCP, HTTP, HTTPS, PROXY
	Method      string // ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP, …
	Persistence string // SOURCE_IP; others are not carried over
	Monitor     *monitor
	Members     []member
}

type monitor struct {
	Type                  string // TCP, TLS-HELLO, HTTP, HTTPS, PING
	Delay, Timeout        time.Duration
	Up, Down              int // consecutive checks
	Method, Path, Version string
	Codes, Domain         string
}

type member struct {
	ID             string
	Address        string
	Port           int
	Weight         int
	Backup         bool
	MonitorAddress string
	MonitorPort    int
}
