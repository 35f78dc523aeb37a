package facts

import (
	"encoding/hex"
	"encoding/json"
	"net"
	"net/netip"
	"slices"
	"strings"
	"unicode"

	"github.com/naupegos/naupegos/internal/fail"
)

// Bounds of a body. What is longer is no machine's.
const (
	MaxBody       = 1 << 20
	maxInterfaces = 256
	maxDisks      = 1024
	maxNeighbours = 256
	maxLines      = 20_000
	maxText       = 256
	maxLine       = 4096
)

// Parse reads a discovery body and puts UUID, MAC addresses and text into their one form. Every error is fail.Invalid.
func Parse(data []byte) (*Discovery, error) {
	if len(data) > MaxBody {
		return nil, fail.New(fail.Invalid, "the discovery has more than %d bytes", MaxBody)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, fail.New(fail.Invalid, "the discovery is no JSON object").Do("send what docs/reference/machine-api.md shows")
	}
	for _, key := range []string{"boot-info", "interfaces", "disks", "lldp", "ignition-journal"} {
		if _, ok := keys[key]; !ok {
			return nil, fail.New(fail.Invalid, "the discovery lacks %s", key).Do("send what docs/reference/machine-api.md shows")
		}
	}
	var d Discovery
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fail.New(fail.Invalid, "the discovery does not have the form that it should: %v", err)
	}
	return &d, d.normal()
}

// normal checks, and puts everything into its one form.
func (d *Discovery) normal() (err error) {
	switch {
	case len(d.Interfaces) > maxInterfaces, len(d.Disks) > maxDisks, len(d.LLDP.Data.Interfaces) > maxNeighbours, len(d.Journal) > maxLines:
		return fail.New(fail.Invalid, "the discovery names more interfaces, disks, neighbours or lines than a machine has")
	}
	if d.Boot.UUID, err = ParseUUID(d.Boot.UUID); err != nil {
		return err
	}
	if d.Boot.MAC, err = ParseMAC(d.Boot.MAC); err != nil {
		return err
	}
	if d.Boot.RandomID = clean(d.Boot.RandomID, maxText); d.Boot.RandomID == "" || strings.ContainsAny(d.Boot.RandomID, "/?#% ") {
		return fail.New(fail.Invalid, "the boot has no usable random-id").Do("send the kernel's boot ID")
	}
	if err := d.normalInterfaces(); err != nil {
		return err
	}
	for i := range d.Disks {
		k := &d.Disks[i]
		if k.SizeBytes < 0 {
			return fail.New(fail.Invalid, "the disk %s has a size below zero", clean(k.Path, maxText))
		}
		cleanAll(&k.Path, &k.Serial, &k.Model, &k.Type)
		k.Holds = cleanList(k.Holds, 64, maxText)
	}
	for i := range d.LLDP.Data.Interfaces {
		n := &d.LLDP.Data.Interfaces[i]
		cleanAll(&n.Name, &n.Port.ID, &n.Port.Description, &n.Chassis.ID, &n.Chassis.Name)
	}
	if s := d.System; s != nil {
		cleanAll(&s.Manufacturer, &s.Product, &s.Serial, &s.Firmware, &s.CPU, &s.BMC, &s.Kernel, &s.Architecture)
	}
	d.Journal = cleanList(d.Journal, maxLines, maxLine)
	return nil
}

func (d *Discovery) normalInterfaces() (err error) {
	var seen []string
	for i := range d.Interfaces {
		n := &d.Interfaces[i]
		cleanAll(&n.Name, &n.IPv4, &n.CIDRv4, &n.Gateway, &n.Driver)
		if n.MAC != "" { // tunnels have none
			if n.MAC, err = ParseMAC(n.MAC); err != nil {
				return err
			}
			if slices.Contains(seen, n.MAC) {
				n.MAC = "" // of a bond, or a VLAN on an interface that was named already
			} else {
				seen = append(seen, n.MAC)
			}
		}
		if n.IPv4 != "" {
			if a, err := netip.ParseAddr(n.IPv4); err != nil || !a.Is4() {
				return fail.New(fail.Invalid, "the interface %s has no IPv4 address: %q", n.Name, n.IPv4)
			}
		}
		if n.CIDRv4 != "" {
			if _, err := netip.ParsePrefix(n.CIDRv4); err != nil {
				return fail.New(fail.Invalid, "the interface %s has no network: %q", n.Name, n.CIDRv4)
			}
		}
		n.FQDN, n.Addresses = cleanList(n.FQDN, 16, maxText), cleanList(n.Addresses, 64, maxText)
	}
	return nil
}

// shared are UUIDs that makers have left in more than one machine.
var shared = []string{"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff", "03000200-0400-0500-0006-000700080009",
	"12345678-1234-5678-90ab-cddeefaabbcc", "fefefefe-fefe-fefe-fefe-fefefefefefe"}

// ParseUUID returns a UUID in its one form: fail.Invalid for what is none, or one that says nothing because many machines have it.
func ParseUUID(text string) (string, error) {
	uuid := strings.ToLower(strings.TrimSpace(text))
	wrong := len(uuid) != 36
	for i := 0; !wrong && i < len(uuid); i++ {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			wrong = uuid[i] != '-'
		} else if _, err := hex.DecodeString("0" + uuid[i:i+1]); err != nil {
			wrong = true
		}
	}
	if wrong {
		return "", fail.New(fail.Invalid, "%q is no UUID", clean(text, 64)).Do("write it as 8-4-4-4-12 hexadecimal digits")
	}
	if slices.Contains(shared, uuid) {
		return "", fail.New(fail.Invalid, "the UUID %s is not a machine's own: makers have left it in many", uuid).
			Do("set one in the machine's firmware, or have its BMC make one")
	}
	return uuid, nil
}

// ParseMAC returns a MAC address in its one form: six lower-case octets with colons.
func ParseMAC(text string) (string, error) {
	mac, err := net.ParseMAC(strings.TrimSpace(text))
	if err != nil || len(mac) != 6 || mac.String() == "00:00:00:00:00:00" || mac[0]&1 != 0 {
		return "", fail.New(fail.Invalid, "%q is no MAC address of an interface", clean(text, 64)).Do("write it as 52:54:00:aa:bb:cc or 52-54-00-aa-bb-cc")
	}
	return mac.String(), nil
}

func cleanAll(texts ...*string) {
	for _, t := range texts {
		*t = clean(*t, maxText)
	}
}

func cleanList(list []string, most, long int) []string {
	list = list[:min(len(list), most)]
	for i := range list {
		list[i] = clean(list[i], long)
	}
	return list
}

// clean bounds text of somebody else's, and takes out what is not to be seen.
func clean(s string, long int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > long {
		s = strings.ToValidUTF8(s[:long], "")
	}
	return strings.TrimSpace(s)
}
