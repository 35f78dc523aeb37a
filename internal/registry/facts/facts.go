// Package facts is what a machine says of itself: the body that it is discovered by, read and checked, and words about it.
//
// The body is the older system's, with keys of our own beside it; machines of that system are understood as they are. The package knows
// nothing of the server, of clusters and of how facts are found: the agent imports it as well.
package facts

// Discovery is the body by which a machine says what it is.
type Discovery struct {
	Boot       BootInfo    `json:"boot-info"`
	Interfaces []Interface `json:"interfaces"`
	Disks      []Disk      `json:"disks"`
	LLDP       LLDP        `json:"lldp"`
	Journal    []string    `json:"ignition-journal"`
	// What follows, machines of the older system don't say.
	System    *System    `json:"system,omitempty"`
	Enrolment *Enrolment `json:"enrolment,omitempty"`
}

// BootInfo says which machine it is, and which of its boots.
type BootInfo struct {
	UUID     string `json:"uuid"`      // of SMBIOS
	MAC      string `json:"mac"`       // that it has booted by
	RandomID string `json:"random-id"` // of the boot
}

// Interface is a network interface. IPv4, CIDRv4 and Netmask are its first address.
type Interface struct {
	Name      string   `json:"name"`
	MAC       string   `json:"mac"`
	IPv4      string   `json:"ipv4"`
	CIDRv4    string   `json:"cidrv4"`
	Netmask   int      `json:"netmask"`
	Gateway   string   `json:"gateway"`
	FQDN      []string `json:"fqdn"`
	Addresses []string `json:"addresses,omitempty"` // all, with their prefix lengths
	Link      bool     `json:"link,omitempty"`      // there is a carrier
	Speed     int      `json:"speed,omitempty"`     // Mbit/s
	Driver    string   `json:"driver,omitempty"`
	// What follows says whether the card's address is the machine's own. The older system does not report it.
	Bus       string `json:"bus,omitempty"`       // "pci", "usb", "virtio"…
	Permanent string `json:"permanent,omitempty"` // the address that the card was made with
	Virtual   bool   `json:"virtual,omitempty"`   // it is a virtual function of another card
	// Ignored says why the address does not identify the machine. The server writes it.
	Ignored string `json:"ignored,omitempty"`
}

// LLDP is what the switches next to the machine say of themselves.
type LLDP struct {
	IsFile bool     `json:"is_file"`
	Data   LLDPData `json:"data"`
}

// LLDPData holds the neighbours by interface.
type LLDPData struct {
	Interfaces []Neighbour `json:"interfaces"`
}

// Neighbour is the switch and its port at the other end of a cable.
type Neighbour struct {
	Name    string  `json:"name"` // of the machine's interface
	Port    Port    `json:"port"`
	Chassis Chassis `json:"chassis"`
}

// Port is a port of a switch.
type Port struct {
	ID          string `json:"id"`
	Description string `json:"description,omitempty"`
}

// Chassis is a switch.
type Chassis struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// System is what SMBIOS and the kernel say of the machine as a whole.
type System struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	Product      string `json:"product,omitempty"`
	Serial       string `json:"serial,omitempty"`
	Firmware     string `json:"firmware,omitempty"` // "bios" or "efi"
	CPU          string `json:"cpu,omitempty"`
	CPUs         int    `json:"cpus,omitempty"`
	MemoryBytes  int64  `json:"memory-bytes,omitempty"`
	BMC          string `json:"bmc,omitempty"` // its address, or how the machine reaches it
	Kernel       string `json:"kernel,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	// Ignored lists what the firmware says and makers have left in many machines. The server writes it.
	Ignored []string `json:"ignored,omitempty"`
}

// Enrolment is the key by which the machine is to be known from now on. The request is signed by it; see Sign.
type Enrolment struct {
	Request  string `json:"request"`  // a PKCS #10 certificate request, PEM: it has the public key, and is signed by the private one
	Sequence int64  `json:"sequence"` // grows with each body that this key signs: one that is sent again is refused
}

// ChassisOf returns the ID of the switch that the interface of a name is connected to, of the first one that has any where that has none;
// empty if nothing is known.
func (d *Discovery) ChassisOf(name string) string {
	first := ""
	for _, n := range d.LLDP.Data.Interfaces {
		if n.Name == name && n.Chassis.ID != "" {
			return n.Chassis.ID
		}
		if first == "" {
			first = n.Chassis.ID
		}
	}
	return first
}
