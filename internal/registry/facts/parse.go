package facts

import (
	"encoding/hex"
	"encoding/json"
	"net"
	"strings"
	"unicode"

	"github.com/naupegos/naupegos/internal/fail"
)

// Bounds of a body. No machine's body is longer.
const (
	MaxBody       = 1 << 20
	maxInterfaces = 4096 // SR-IOV: up to 256 functions of each port
	maxDisks      = 1024
	maxNeighbours = 4096
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
		return nil, fail.Wrap(fail.Invalid, err, "the discovery is no JSON object").Do("send what docs/reference/machine-api.md shows")
	}
	for _, key := range []string{"boot-info", "interfaces", "disks", "lldp", "ignition-journal"} {
		if _, ok := keys[key]; !ok {
			return nil, fail.New(fail.Invalid, "the discovery lacks %s", key).Do("send what docs/reference/machine-api.md shows")
		}
	}
	d, err := unmarshal[Discovery](data)
	if err != nil {
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
		cleanAll(&k.Path, &k.Serial, &k.WWID, &k.Model, &k.Type, &k.Zoned, &k.Unreadable)
		k.Holds, k.Paths = cleanList(k.Holds, 64, maxText), cleanList(k.Paths, 64, maxText)
	}
	for i := range d.LLDP.Data.Interfaces {
		n := &d.LLDP.Data.Interfaces[i]
		cleanAll(&n.Name, &n.Port.ID, &n.Port.Description, &n.Chassis.ID, &n.Chassis.Name)
	}
	if s := d.System; s != nil {
		cleanAll(&s.Manufacturer, &s.Product, &s.Serial, &s.Firmware, &s.CPU, &s.BMC, &s.Kernel, &s.Architecture)
		s.leaveOutDummies()
	}
	d.Journal = cleanList(d.Journal, maxLines, maxLine)
	return nil
}

// ParseUUID returns a UUID in canonical form. It returns fail.Invalid for other text, and for UUIDs that many machines share.
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
	if why := dummyUUID(uuid); why != "" {
		return "", fail.New(fail.Invalid, "the UUID %s is not a machine's own: makers have left it in many (%s)", uuid, why).
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

// clean shortens foreign text, and removes invisible characters.
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
