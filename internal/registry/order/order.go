// Package order defines the installation order for a physical machine: which system, on which disk, and the machine's configuration.
//
// The server writes orders and the agent executes them: both import this package, which depends on neither. An order contains no secret, and only
// its machine gets it.
package order

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Schema is the version of orders that this program writes and understands.
const Schema = 1

// MaxSize limits the input of Parse.
const MaxSize = 1 << 20

// Order is an installation order for a machine.
type Order struct {
	Schema   int    `json:"schema"`
	UUID     string `json:"uuid"`
	Hostname string `json:"hostname"`
	System   System `json:"system"`
	Disk     Disk   `json:"disk"`
	// Data contains the serial numbers or WWIDs of disks that are never touched, regardless of the other settings. The machine has each of them.
	Data []string `json:"data,omitempty"`
	// Elsewhere contains the numbers of other machines' data disks, which are not touched either if they turn up here.
	Elsewhere []string `json:"elsewhere,omitempty"`
	// Network is empty if the boot interface is configured by DHCP, and no other interface is used.
	Network []Interface `json:"network,omitempty"`
	// SSHKeys are lines of root's authorized_keys.
	SSHKeys []string `json:"sshKeys,omitempty"`
	// UserData is a cloud-config; if it is empty, cloud-init does nothing on the machine.
	UserData string `json:"userData,omitempty"`
	// Group is the group of machines with a limited number of reboots at once: a cluster's name. Empty: Machines.
	Group string `json:"group,omitempty"`
	// First is how the machine starts the installed system: Reboot (the default), Kexec or Poweroff.
	First string `json:"first,omitempty"`
	// TrialSeconds is the time for a new system to reach its server; after that, the previous system runs again. 0: 900.
	TrialSeconds int `json:"trialSeconds,omitempty"`
}

// System is a system image: the file system of a slot, and the beginning of a disk.
type System struct {
	ID         string `json:"id"`         // unique ID: sha256:…
	Kubernetes string `json:"kubernetes"` // title of the bundle inside: "v1.37.2"
	Bundle     string `json:"bundle"`     // ID of the bundle
	Root       Blob   `json:"root"`       // the file system of a slot
	Head       Blob   `json:"head"`       // the boot loaders, for a disk's first 68 MiB
}

// Blob is a file for machines on the server, compressed with zstd.
type Blob struct {
	Path      string `json:"path"`   // on the server: "/assets/systems/…/root.zst"
	SHA256    string `json:"sha256"` // of the file, hexadecimal
	Size      int64  `json:"size"`
	RawSHA256 string `json:"rawSHA256"` // of the unpacked content; part of a system's ID
	RawSize   int64  `json:"rawSize"`
}

// Disk selects the system's disk: by serial number, else the smallest one that is large enough. A disk with foreign content is never used without
// consent.
type Disk struct {
	Serial   string `json:"serial,omitempty"`
	MinBytes int64  `json:"minBytes,omitempty"` // in addition to the layout's needs
	// Consent contains the serial numbers or WWIDs of disks that may be overwritten despite foreign content. It is for what is on them now: it ends with the
	// installation, and is no part of the digest.
	Consent []string `json:"consent,omitempty"`
	// SlotBytes is the size of each of the two slots; 0: SlotSize, or more if the image needs it.
	SlotBytes int64 `json:"slotBytes,omitempty"`
}

// Names lists the disks in the order that the machine must have.
func (o *Order) Names() []string {
	return slices.Concat([]string{o.Disk.Serial}, o.Data, o.Disk.Consent)
}

// Interface is a network interface with static addresses.
type Interface struct {
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"` // with prefix lengths
	Gateway   string   `json:"gateway,omitempty"`
	DNS       []string `json:"dns,omitempty"`
}

// How a machine starts the installed system.
const (
	Reboot   = "reboot"
	Kexec    = "kexec"
	Poweroff = "poweroff"
)

// The defaults of an order.
const (
	Machines   = "machines"       // Group
	SlotSize   = int64(8) << 30   // Disk.SlotBytes
	UsualTrial = 15 * time.Minute // TrialSeconds
)

// RebootGroup returns the group of machines with a limited number of reboots at once.
func (o *Order) RebootGroup() string {
	if o.Group == "" {
		return Machines
	}
	return o.Group
}

// Begin returns how the machine starts the installed system.
func (o *Order) Begin() string {
	if o.First == "" {
		return Reboot
	}
	return o.First
}

// Trial returns the time for a new system to reach its server.
func (o *Order) Trial() time.Duration {
	if o.TrialSeconds == 0 {
		return UsualTrial
	}
	return time.Duration(o.TrialSeconds) * time.Second
}

// Slot returns the size of each slot, in bytes: whole MiB.
func (o *Order) Slot() int64 {
	const mib = int64(1) << 20
	n := o.Disk.SlotBytes
	if n == 0 {
		n = SlotSize
	}
	return (max(n, o.System.Root.RawSize) + mib - 1) / mib * mib
}

// Parse parses an order, and refuses one that this program does not fully understand: fail.Invalid.
func Parse(data []byte) (*Order, error) {
	if len(data) > MaxSize {
		return nil, fail.New(fail.Invalid, "the installation order has more than %d bytes", MaxSize)
	}
	var o Order
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the installation order").Do("if the server is newer than the agent, make the discovery image again")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fail.New(fail.Invalid, "there is something behind the installation order")
	}
	return &o, o.Check()
}

// Used returns the order without its consent to overwrite disks, which ends with the installation.
func (o *Order) Used() *Order {
	used := *o
	used.Disk.Consent = nil
	return &used
}

// Digest returns the digest of the order. An installed machine reports the digest of its order.
func (o *Order) Digest() string {
	data, err := json.Marshal(o.Used())
	if err != nil {
		return "" // never: all its types can be encoded
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
