package bed

// Host is one of the imaginary hypervisors.
type Host struct {
	Name string // as Nova knows it
	Zone string // its availability zone
}

// VolumeZone is the one zone of Hosts, beside the usual one, in which volumes can be made too.
const VolumeZone = "az1"

// volumeBackends is the number of enabled_backends in cinder.conf: one for the usual zone, one for VolumeZone.
const volumeBackends = 2

// Hosts are all hypervisors: three in the usual zone, so that within it anti-affinity of three can be met and that of four
// can't, and one in each of three further zones.
var Hosts = []Host{
	{"compute1", "nova"}, {"compute2", "nova"}, {"compute3", "nova"},
	{"compute4", "az1"}, {"compute5", "az2"}, {"compute6", "az3"},
}
