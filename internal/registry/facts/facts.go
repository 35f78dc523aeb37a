// Package facts defines a machine's report of its facts, with which it is discovered: it parses and checks the body, and describes it in words.
//
// The body is the older system's, with additional keys; reports of that system's machines are accepted. The package depends neither on the server,
// nor on clusters, nor on how facts are found: the agent imports it as well.
package facts

// Discovery is a machine's report of its facts.
type Discovery struct {
	Boot       BootInfo    `json:"boot-info"`
	Interfaces []Interface `json:"interfaces"`
	Disks      []Disk      `json:"disks"`
	LLDP       LLDP        `json:"lldp"`
	Journal    []string    `json:"ignition-journal"`
	// VirtualFunctions is the number of virtual functions among the cards. Interfaces has none of them if they are many. The server writes it.
	VirtualFunctions int `json:"virtual-functions,omitempty"`
	// Fields that machines of the older system don't send.
	System    *System    `json:"system,omitempty"`
	Enrolment *Enrolment `json:"enrolment,omitempty"`
}

// BootInfo identifies the machine, and its boot.
type BootInfo struct {
	UUID     string `json:"uuid"`      // from SMBIOS
	MAC      string `json:"mac"`       // of the boot interface
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
	Addresses []string `json:"addresses,omitempty"` // all addresses, with their prefix lengths
	Link      bool     `json:"link,omitempty"`      // there is a carrier
	Speed     int      `json:"speed,omitempty"`     // Mbit/s
	Driver    string   `json:"driver,omitempty"`
	// The following fields show whether the card's address is the machine's own. The older system does not report them.
	Bus       string `json:"bus,omitempty"`       // "pci", "usb", "virtio"…
	Permanent string `json:"permanent,omitempty"` // the card's built-in address
	Virtual   bool   `json:"virtual,omitempty"`   // a virtual function of another card
	// Ignored says why the address does not identify the machine. The server writes it.
	Ignored string `json:"ignored,omitempty"`
}

// LLDP contains the reports of the switches next to the machine.
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

// System contains the facts about the whole machine from SMBIOS and the kernel.
type System struct {
	Manufacturer string `json:"manufacturer,omitempty"`
	Product      string `json:"product,omitempty"`
	Serial       string `json:"serial,omitempty"`
	Firmware     string `json:"firmware,omitempty"` // "bios" or "efi"
	CPU          string `json:"cpu,omitempty"`
	CPUs         int    `json:"cpus,omitempty"`
	MemoryBytes  int64  `json:"memory-bytes,omitempty"`
	BMC          string `json:"bmc,omitempty"` // its address, or the machine's way to it
	Kernel       string `json:"kernel,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	// Ignored lists makers' defaults in the firmware, which many machines have. The server writes it.
	Ignored []string `json:"ignored,omitempty"`
}

// Enrolment is the machine's future key, which must sign the request; see Sign.
type Enrolment struct {
	Request  string `json:"request"`  // a PKCS #10 certificate request, PEM: it contains the public key, and is signed by the private one
	Sequence int64  `json:"sequence"` // grows with each body that this key signs: repeated bodies are refused
}

// ChassisOf returns the ID of the switch on the interface of this name, or else of the first interface with a known switch; empty if none is known.
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
