// Package bmc switches the power of physical machines through their baseboard management controllers, by IPMI 2.0 or by Redfish.
//
// It knows nothing of the registry, which decides who may switch what, and stores the passwords.
package bmc

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/naupegos/naupegos/internal/fail"
)

// The protocols of controllers.
const (
	ProtocolIPMI    = "ipmi" // the default
	ProtocolRedfish = "redfish"
)

// The sources of a machine's next boot.
const (
	AsUsual     = ""
	FromNetwork = "network"
	FromDisk    = "disk"
)

// Access is the address and the login of a controller. No error contains the password.
type Access struct {
	Protocol string // empty: IPMI
	Address  string // HOST or HOST:PORT
	User     string
	Password []byte
	Firmware string // the machine's: bios or efi; empty: unknown

	// Of Redfish:

	Fingerprint string // sha256:HEX of the controller's certificate, which is then trusted regardless of its signature
	Authorities string // PEM of the authority of the controller's certificate; if both are empty: the system's authorities
	System      string // the ID of the machine on a controller with several; empty: the machine with this UUID
	UUID        string // the machine's, from its firmware

	allowed func(netip.Addr) bool // as in Controllers
}

// may refuses an address that the server's policy excludes, whatever name resolved to it.
func (a Access) may(ip netip.Addr) error {
	if a.allowed == nil || a.allowed(ip.Unmap().WithZone("")) { // no network contains an address with a zone
		return nil
	}
	return fail.New(fail.Refused, "the server's policy: a BMC may not have the address %s", ip.Unmap()).At(a.Address).
		Do("the server's administrator can allow its network with bmcNetworks")
}

// Actions are the actions on a machine's power.
func Actions() []string { return []string{"status", "on", "off", "cycle", "reset", "shutdown"} }

// mostUser is the maximum length of an IPMI user name, in bytes.
const mostUser = 16

const (
	answers = 5 * time.Second  // time limit of one IPMI answer
	settles = 90 * time.Second // time limit for a machine to be on, or off
	looks   = 500 * time.Millisecond
)

// Controllers switches power with the protocol of each controller.
type Controllers struct {
	Allowed func(netip.Addr) bool // reports whether a controller may have this address; nil: every address is allowed
}

// Power performs a power action on a machine, and returns whether the machine is on afterwards. After on and off it waits for that state. boot is the
// source of the next boot.
func (c Controllers) Power(ctx context.Context, a Access, action, boot string) (on bool, err error) {
	a.allowed = c.Allowed
	if err := a.Check(); err != nil {
		return false, err
	}
	if boot != AsUsual && boot != FromNetwork && boot != FromDisk {
		return false, fail.New(fail.Invalid, "a machine can't boot from %q", boot).Do("it boots from %s or %s", FromNetwork, FromDisk)
	}
	if a.Protocol == ProtocolRedfish {
		return Redfish{}.Power(ctx, a, action, boot)
	}
	return IPMI{}.Power(ctx, a, action, boot)
}

// Check returns what is wrong with the access to a controller, without contacting the controller.
func (a Access) Check() error {
	wrong := func(format string, args ...any) *fail.Error {
		return fail.New(fail.Invalid, format, args...).At(a.Address)
	}
	most := map[string]int{"": 20, ProtocolIPMI: 20, ProtocolRedfish: 256}[a.Protocol]
	switch {
	case most == 0:
		return wrong("%q is not a protocol of a BMC: use %s or %s", a.Protocol, ProtocolIPMI, ProtocolRedfish)
	case a.Address == "" || a.User == "" || len(a.Password) == 0 || len(a.Password) > most || strings.ContainsAny(a.Address, " \t\r\n/@?#"):
		return wrong("a BMC needs an address (HOST or HOST:PORT), a user and a password of at most %d bytes", most)
	case strings.ContainsFunc(a.User, unicode.IsControl) || !utf8.ValidString(a.User):
		return wrong("the BMC's user %q contains control characters", a.User)
	case a.Protocol != ProtocolRedfish && len(a.User) > mostUser:
		return wrong("the BMC's user %q is longer than %d bytes, the most that IPMI has", a.User, mostUser).Do("use a shorter one, or --protocol redfish")
	case a.Protocol == ProtocolRedfish && strings.Contains(a.User, ":"):
		return wrong("the BMC's user %q contains a colon, which Basic authentication puts behind the user", a.User)
	case a.Protocol != ProtocolRedfish && a.Fingerprint+a.Authorities+a.System != "":
		return wrong("a fingerprint, authorities and a system are of Redfish; IPMI has none of them").Do("--protocol redfish")
	case a.Fingerprint != "" && a.Authorities != "":
		return wrong("a BMC is trusted by its fingerprint or by authorities, not by both")
	case a.Fingerprint != "" && fingerprint(a.Fingerprint) == nil:
		return wrong("%q is not the fingerprint of a certificate", a.Fingerprint).Do("it is sha256: and 64 hexadecimal digits, as in openssl x509 -noout -fingerprint -sha256")
	case a.Authorities != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(a.Authorities)):
		return wrong("there is no certificate in the authorities").Do("they are PEM: -----BEGIN CERTIFICATE-----")
	}
	return nil
}

// fingerprint parses sha256:HEX, with or without colons between the bytes; nil if it is invalid.
func fingerprint(text string) []byte {
	digits, ok := strings.CutPrefix(strings.ToLower(text), "sha256:")
	sum, err := hex.DecodeString(strings.ReplaceAll(digits, ":", ""))
	if !ok || err != nil || len(sum) != 32 {
		return nil
	}
	return sum
}

func unknown(action string) error {
	return fail.New(fail.Invalid, "%q is nothing that can be done with a machine's power", action).Do("it is one of %s", strings.Join(Actions(), ", "))
}

// unmoved returns the error for a machine that does not do what its controller was told.
func unmoved(a Access) error {
	return fail.New(fail.NotReady, "the machine was told, and its power is as it was after %s", settles).At(a.Address).Do("look at its BMC's own pages or event log")
}
