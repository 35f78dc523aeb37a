package access

// call is one kind of call: its method, and its path below the service's address. As in keystonemiddleware, * stands for one segment of a path
// and ** for any number of them.
type call struct{ method, path string }

// Service is a service that components of the cluster call.
type Service struct {
	Name  string   // for display
	Types []string // possible types in the catalogue
	Major int      // version of its API
	Probe string   // path of a read that shows whether the service accepts a credential with access rules: one of calls, with a query

	calls []call
}

// The calls below, except Designate's, are those that openstack-cloud-controller-manager and cinder-csi-plugin make, v1.35.0 and v1.36.0, which
// bundle/recipes/openstack builds, run as addon/manifests and addon.CloudConf have them: without the controller of routes, and with
// manage-security-groups off. Some services pass their caller's token on where their operator has not given them service tokens; what they
// call with it then is among these, too.
//
// None is there for Barbican: Services whose listeners have a certificate from there, and volumes of a type that is encrypted, for which
// Cinder and Nova fetch a key in the caller's name, want a credential without access rules.

// Compute is Nova.
func Compute() Service {
	return Service{
		Name: "compute", Types: []string{"compute"}, Major: 2, Probe: "/servers/detail?limit=1",
		calls: []call{
			{"GET", "/servers/*"},                            // both: a node's server by ID, and by name ("detail")
			{"GET", "/flavors/*"},                            // manager: a node's type
			{"POST", "/servers/*/os-volume_attachments"},     // CSI
			{"DELETE", "/servers/*/os-volume_attachments/*"}, // CSI
		},
	}
}

// Network is Neutron.
func Network() Service {
	return Service{
		Name: "network", Types: []string{"network"}, Major: 2, Probe: "/v2.0/networks?limit=1",
		calls: []call{
			{"GET", "/v2.0/extensions"},  // manager
			{"GET", "/v2.0/networks"},    // manager: the source of floating IPs
			{"GET", "/v2.0/networks/*"},  // manager: names of nodes' networks; Octavia in its name
			{"GET", "/v2.0/subnets"},     // manager: of a load balancer's members
			{"GET", "/v2.0/subnets/*"},   // the same; Octavia in its name
			{"GET", "/v2.0/ports"},       // manager: nodes' addresses; Nova in its name
			{"GET", "/v2.0/ports/*"},     // manager: trunks of nodes; Octavia in its name
			{"GET", "/v2.0/floatingips"}, // manager: for load balancers
			{"POST", "/v2.0/floatingips"},
			{"PUT", "/v2.0/floatingips/*"},
			{"DELETE", "/v2.0/floatingips/*"},
			{"GET", "/v2.0/security-groups"}, // manager: whether a group remains from a time when it managed them; Nova in its name
		},
	}
}

// BlockStorage is Cinder.
func BlockStorage() Service {
	return Service{
		Name: "block storage", Types: []string{"block-storage", "block-store", "volumev3", "volume"}, Major: 3, Probe: "/volumes/detail?limit=1",
		calls: []call{
			{"POST", "/volumes"}, // all CSI
			{"GET", "/volumes/*"},
			{"DELETE", "/volumes/*"},
			{"POST", "/volumes/*/action"}, // CSI: a volume grows; Nova in its name: a volume is attached
			{"POST", "/snapshots"},        // CSI, if the user adds the snapshot controller
			{"GET", "/snapshots"},
			{"GET", "/snapshots/*"},
			{"DELETE", "/snapshots/*"},
			{"POST", "/backups"}, // CSI: snapshots of the type backup
			{"GET", "/backups"},
			{"GET", "/backups/*"},
			{"DELETE", "/backups/*"},
			{"POST", "/attachments"}, // Nova, in the name of CSI
			{"GET", "/attachments/*"},
			{"PUT", "/attachments/*"},
			{"POST", "/attachments/*/action"},
			{"DELETE", "/attachments/*"},
		},
	}
}

// DNS is Designate, for external-dns with the program in bundle/recipes/external-dns.
func DNS() Service {
	return Service{
		Name: "dns", Types: []string{"dns"}, Major: 2, Probe: "/v2/zones?limit=1",
		calls: []call{
			{"GET", "/v2/zones"},
			{"GET", "/v2/zones/*/recordsets"},
			{"POST", "/v2/zones/*/recordsets"},
			{"PUT", "/v2/zones/*/recordsets/*"},
			{"DELETE", "/v2/zones/*/recordsets/*"},
		},
	}
}

// LoadBalancer is Octavia.
func LoadBalancer() Service {
	return Service{
		Name: "load-balancer", Types: []string{"load-balancer"}, Major: 2, Probe: "/v2.0/lbaas/loadbalancers?limit=1",
		calls: []call{
			{"GET", "/"}, // manager: API version
			{"GET", "/v2.0/lbaas/**"},
			{"POST", "/v2.0/lbaas/**"},
			{"PUT", "/v2.0/lbaas/**"},
			{"DELETE", "/v2.0/lbaas/**"},
		},
	}
}
