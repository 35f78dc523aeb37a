package boot

import (
	"encoding/hex"
	"net/url"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// settings are the values of the kernel's arguments.
type settings struct {
	server    string // https:// URL
	authority []byte // SHA-256 of the certificate of the server's authority
	bootMAC   string // of the boot interface

	carrier time.Duration // how long to wait for links to get a carrier and an address
	lldp    time.Duration // how long to listen to switches
	wait    time.Duration // how long everything may take until the machine is approved
	pause   time.Duration // the longest pause between two requests for approval
	install time.Duration // time limit of an installation
	retry   time.Duration // how long an error stays on the console
}

// usual has the defaults.
var usual = settings{carrier: 2 * time.Minute, lldp: 35 * time.Second, wait: time.Hour, pause: 10 * time.Second, install: time.Hour, retry: time.Minute}

// parse parses the kernel's arguments. It uses the valid ones even if others are invalid.
func parse(line string) (settings, error) {
	s := usual
	durations := map[string]*time.Duration{"carrier": &s.carrier, "lldp": &s.lldp, "wait": &s.wait, "pause": &s.pause, "install": &s.install, "retry": &s.retry}
	var problem error
	for word := range strings.FieldsSeq(line) {
		if mac, ok := strings.CutPrefix(word, "BOOTIF="); ok {
			s.bootMAC = strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(mac, "01-"), "-", ":"))
		}
		name, value, ok := strings.Cut(strings.TrimPrefix(word, "naupegos."), "=")
		if !ok || !strings.HasPrefix(word, "naupegos.") {
			continue
		}
		switch name {
		case "server":
			s.server = strings.TrimRight(value, "/")
		case "authority":
			s.authority, _ = hex.DecodeString(strings.TrimPrefix(value, "sha256:")) // its length is checked below
		default:
			to, known := durations[name]
			d, err := time.ParseDuration(value)
			if !known || err != nil || d < 0 {
				problem = fail.New(fail.Invalid, "the agent does not know the kernel's argument %s", word).Do("see docs/how-to/network-boot.md")
				continue
			}
			*to = d
		}
	}
	u, err := url.Parse(s.server)
	switch {
	case problem != nil:
	case err != nil || u.Scheme != "https" || u.Hostname() == "":
		problem = fail.New(fail.Invalid, "the kernel's arguments name no server").Do("boot the machine with naupegos.server=https://…")
	case len(s.authority) != 32:
		problem = fail.New(fail.Invalid, "the kernel's arguments name no authority of the server").Do("boot the machine with naupegos.authority=sha256:…")
	}
	return s, problem
}
