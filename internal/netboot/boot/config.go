package boot

import (
	"encoding/json"
	"net"
	"path"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Config is the content of a data directory in matchbox's format. The keys are file names relative to their directories: without .json for groups
// and profiles, complete for templates.
type Config struct {
	Groups   map[string]Group
	Profiles map[string]Profile
	Ignition map[string]string // Ignition (.ign, .ignition), or templates of Butane
	Cloud    map[string]string // templates of cloud-configs and of scripts for cloud-init
	Generic  map[string]string // templates of other files
}

// Group assigns a profile to the machines whose labels match its selector.
type Group struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name,omitempty"`
	Profile  string            `json:"profile,omitempty"`
	Selector map[string]string `json:"selector,omitempty"`
	Metadata map[string]any    `json:"metadata,omitempty"` // variables for templates
}

// Profile says what a machine boots and which templates configure it.
type Profile struct {
	ID         string  `json:"id,omitempty"`
	Name       string  `json:"name,omitempty"`
	IgnitionID string  `json:"ignition_id,omitempty"`
	CloudID    string  `json:"cloud_id,omitempty"`
	GenericID  string  `json:"generic_id,omitempty"`
	Boot       *Kernel `json:"boot,omitempty"`
}

// Kernel names what a boot loader loads and the kernel's arguments.
type Kernel struct {
	Kernel string   `json:"kernel,omitempty"`
	Initrd []string `json:"initrd,omitempty"`
	Args   []string `json:"args,omitempty"`

	// Disk makes the machine boot its first disk instead of a kernel. matchbox does not have it, and no file sets it.
	Disk bool `json:"-"`
}

// ParseGroup parses a group and normalises the MAC addresses of its selector to the form of labels.
func ParseGroup(data []byte) (Group, error) {
	var g Group
	if err := json.Unmarshal(data, &g); err != nil {
		return Group{}, fail.Wrap(fail.Invalid, err, "read the group")
	}
	return g.normal()
}

// ParseProfile parses a profile.
func ParseProfile(data []byte) (Profile, error) {
	var p Profile
	if err := json.Unmarshal(data, &p); err != nil {
		return Profile{}, fail.Wrap(fail.Invalid, err, "read the profile")
	}
	if p.ID == "" {
		return Profile{}, fail.New(fail.Invalid, "the profile has no id").Do(`give it one: "id": "worker"`)
	}
	return p, nil
}

// normal returns the group with a copy of its selector, whose MAC addresses are in lower case with colons.
func (g Group) normal() (Group, error) {
	selector := make(map[string]string, len(g.Selector))
	for k, v := range g.Selector {
		if isMAC(k) {
			mac, err := net.ParseMAC(v)
			if err != nil {
				return Group{}, fail.Wrap(fail.Invalid, err, "selector %s of the group", k).Do("write it like 52:54:00:12:34:56")
			}
			v = mac.String()
		}
		selector[k] = v
	}
	g.Selector = selector
	return g, nil
}

func isMAC(label string) bool { return strings.EqualFold(label, "mac") }

// clean normalises a file name from a group or profile to the form of a Config's keys.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
