package boot

import (
	"encoding/json"
	"net"
	"path"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// Config is everything that machines are answered from, as files of matchbox's data directory have it. The keys are names of files below
// their directory: without .json of groups and profiles, whole ones of templates.
type Config struct {
	Groups   map[string]Group
	Profiles map[string]Profile
	Ignition map[string]string // Ignition (.ign, .ignition), or templates of Butane
	Cloud    map[string]string // templates of cloud-configs and of scripts for cloud-init
	Generic  map[string]string // templates of anything else
}

// Group gives a profile to the machines whose labels have all values of its selector.
type Group struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name,omitempty"`
	Profile  string            `json:"profile,omitempty"`
	Selector map[string]string `json:"selector,omitempty"`
	Metadata map[string]any    `json:"metadata,omitempty"` // what templates are rendered with
}

// Profile says what a machine boots, and from which templates it is configured.
type Profile struct {
	ID         string  `json:"id,omitempty"`
	Name       string  `json:"name,omitempty"`
	IgnitionID string  `json:"ignition_id,omitempty"`
	CloudID    string  `json:"cloud_id,omitempty"`
	GenericID  string  `json:"generic_id,omitempty"`
	Boot       *Kernel `json:"boot,omitempty"`
}

// Kernel is what a boot loader loads, and with which arguments.
type Kernel struct {
	Kernel string   `json:"kernel,omitempty"`
	Initrd []string `json:"initrd,omitempty"`
	Args   []string `json:"args,omitempty"`

	// Disk has the machine go on to its first disk: nothing is loaded. It is no word of matchbox's, and read from no file.
	Disk bool `json:"-"`
}

// ParseGroup reads a group, and writes MAC addresses of its selector as labels have them.
func ParseGroup(data []byte) (Group, error) {
	var g Group
	if err := json.Unmarshal(data, &g); err != nil {
		return Group{}, fail.Wrap(fail.Invalid, err, "read the group")
	}
	return g.normal()
}

// ParseProfile reads a profile.
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

// normal returns the group with its MAC addresses in lower case with colons, in a selector of its own.
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

// clean returns the name of a file as the keys of a Config have it, whatever a group or profile has written.
func clean(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
