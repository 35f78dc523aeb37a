// Package order is what a physical machine is told to install: which system, on which disk, and what the machine is to be there.
//
// The server writes orders and the agent carries them out: both import this package, which knows nothing of either. An order holds no secret,
// and is given to the machine alone that it is for.
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

// MaxSize bounds what Parse reads.
const MaxSize = 1 << 20

// Order says what is to be installed on a machine.
type Order struct {
	Schema   int    `json:"schema"`
	UUID     string `json:"uuid"`
	Hostname string `json:"hostname"`
	System   System `json:"system"`
	Disk     Disk   `json:"disk"`
	// Data has the serial numbers or WWIDs of disks that are never touched, whatever else the order says. The machine has each of them.
	Data []string `json:"data,omitempty"`
	// Elsewhere has the numbers of data disks of other machines. They are not touched either, should one turn up here.
	Elsewhere []string `json:"elsewhere,omitempty"`
	// Network is empty where the interface that the machine has booted by is configured by DHCP, and no other is.
	Network []Interface `json:"network,omitempty"`
	// SSHKeys are lines of root's authorized_keys.
	SSHKeys []string `json:"sshKeys,omitempty"`
	// UserData is a cloud-config; where it is empty, cloud-init does nothing on the machine.
	UserData string `json:"userData,omitempty"`
	// Group is that of machines of which only so many may reboot at once: a cluster's name. Empty: Machines.
	Group string `json:"group,omitempty"`
	// First is how the machine begins with what was installed: Reboot (also where it is empty), Kexec or Poweroff.
	First string `json:"first,omitempty"`
	// TrialSeconds is how long a system that runs for the first time has to reach its server before the one before it runs again; 0: 900.
	TrialSeconds int `json:"trialSeconds,omitempty"`
}

// System is a system image: the file system of a slot, and what a disk begins with.
type System struct {
	ID         string `json:"id"`         // which one it is: sha256:…
	Kubernetes string `json:"kubernetes"` // title of the bundle inside: "v1.37.2"
	Bundle     string `json:"bundle"`     // its ID
	Root       Blob   `json:"root"`       // the file system of a slot
	Head       Blob   `json:"head"`       // the boot loaders, for a disk's first 68 MiB
}

// Blob is a file that the server has for machines, compressed with zstd.
type Blob struct {
	Path      string `json:"path"`   // on the server: "/assets/systems/…/root.zst"
	SHA256    string `json:"sha256"` // of the file, hexadecimal
	Size      int64  `json:"size"`
	RawSHA256 string `json:"rawSHA256"` // of what it is unpacked to, which is part of a system's ID
	RawSize   int64  `json:"rawSize"`
}

// Disk is the rule by which the system's disk is chosen: by serial number, else the smallest that is large enough. One that holds something
// which isn't ours is never taken without consent.
type Disk struct {
	Serial   string `json:"serial,omitempty"`
	MinBytes int64  `json:"minBytes,omitempty"` // beside what the layout needs
	// Consent has the serial numbers or WWIDs of disks that may be overwritten though something foreign is on them.
	Consent []string `json:"consent,omitempty"`
	// SlotBytes is the size of each of the two slots; 0: SlotSize, or what the image needs.
	SlotBytes int64 `json:"slotBytes,omitempty"`
}

// Names lists the disks that the order names, and that the machine has to have.
func (o *Order) Names() []string {
	return slices.Concat([]string{o.Disk.Serial}, o.Data, o.Disk.Consent)
}

// Interface is a network interface with addresses of its own.
type Interface struct {
	MAC       string   `json:"mac"`
	Addresses []string `json:"addresses"` // with prefix lengths
	Gateway   string   `json:"gateway,omitempty"`
	DNS       []string `json:"dns,omitempty"`
}

// How a machine begins with what was installed.
const (
	Reboot   = "reboot"
	Kexec    = "kexec"
	Poweroff = "poweroff"
)

// What holds where an order is silent.
const (
	Machines   = "machines"       // Group
	SlotSize   = int64(8) << 30   // Disk.SlotBytes
	UsualTrial = 15 * time.Minute // TrialSeconds
)

// RebootGroup is the group of machines of which only so many may reboot at once.
func (o *Order) RebootGroup() string {
	if o.Group == "" {
		return Machines
	}
	return o.Group
}

// Begin is how the machine begins with what was installed.
func (o *Order) Begin() string {
	if o.First == "" {
		return Reboot
	}
	return o.First
}

// Trial is how long a new system has to reach its server.
func (o *Order) Trial() time.Duration {
	if o.TrialSeconds == 0 {
		return UsualTrial
	}
	return time.Duration(o.TrialSeconds) * time.Second
}

// Slot is the size of each slot, in whole MiB.
func (o *Order) Slot() int64 {
	const mib = int64(1) << 20
	n := o.Disk.SlotBytes
	if n == 0 {
		n = SlotSize
	}
	return (max(n, o.System.Root.RawSize) + mib - 1) / mib * mib
}

// Parse reads an order, and refuses one that this program does not understand as a whole: fail.Invalid.
func Parse(data []byte) (*Order, error) {
	if len(data) > MaxSize {
		return nil, fail.New(fail.Invalid, "the installation order has more than %d bytes", MaxSize)
	}
	var o Order
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the installation order").Do("where the server is newer than the agent: make the discovery image again")
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fail.New(fail.Invalid, "there is something behind the installation order")
	}
	return &o, o.Check()
}

// Digest names what the order says. An installed machine reports that of the order that it was installed by.
func (o *Order) Digest() string {
	data, err := json.Marshal(o)
	if err != nil {
		return "" // no type of it can fail
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}
