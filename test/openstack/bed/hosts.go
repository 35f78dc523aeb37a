package bed

// Host is one of the fake hypervisors.
type Host struct {
	Name string // its name in Nova
	Zone string // its availability zone
}

// VolumeZone is the zone that offers volumes besides the default zone.
const VolumeZone = "az1"

// volumeBackends is the number of enabled_backends in cinder.conf: one for the default zone, one for VolumeZone.
const volumeBackends = 2

// Hosts are all hypervisors: three in the default zone, enough for anti-affinity of three servers but not of four, and one in each of three
// further zones.
var Hosts = []Host{
	{"compute1", "nova"}, {"compute2", "nova"}, {"compute3", "nova"},
	{"compute4", "az1"}, {"compute5", "az2"}, {"compute6", "az3"},
}
