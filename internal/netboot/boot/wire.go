package boot

import (
	"encoding/json"

	"github.com/naupegos/naupegos/internal/fail"
)

// wire is the form of a Config between processes: it keeps texts byte for byte, and Kernel.Disk, which no file contains.
type wire struct {
	Groups   map[string]Group
	Profiles map[string]Profile
	Disk     []string // profiles that boot their disk
	Texts    map[kind]map[string][]byte
}

// texts returns the templates of a Config by kind.
func (c Config) texts() map[kind]map[string]string {
	return map[kind]map[string]string{ignitionKind: c.Ignition, cloudKind: c.Cloud, genericKind: c.Generic}
}

// MarshalJSON implements json.Marshaler.
func (c Config) MarshalJSON() ([]byte, error) {
	w := wire{Groups: c.Groups, Profiles: c.Profiles, Texts: map[kind]map[string][]byte{}}
	for name, p := range c.Profiles {
		if p.Boot != nil && p.Boot.Disk {
			w.Disk = append(w.Disk, name)
		}
	}
	for k, texts := range c.texts() {
		w.Texts[k] = map[string][]byte{}
		for name, text := range texts {
			w.Texts[k][name] = []byte(text)
		}
	}
	return json.Marshal(w)
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Config) UnmarshalJSON(data []byte) error {
	var w wire
	if err := json.Unmarshal(data, &w); err != nil {
		return fail.Wrap(fail.Invalid, err, "read a boot configuration")
	}
	for _, name := range w.Disk {
		if p := w.Profiles[name]; p.Boot != nil {
			p.Boot.Disk = true
		}
	}
	*c = Config{Groups: w.Groups, Profiles: w.Profiles, Ignition: map[string]string{}, Cloud: map[string]string{}, Generic: map[string]string{}}
	for k, texts := range c.texts() {
		for name, text := range w.Texts[k] {
			texts[name] = string(text)
		}
	}
	return nil
}
