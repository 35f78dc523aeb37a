package bmc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
)

// redfishSystem has the fields of a ComputerSystem that power control needs. It reads no others, so that no others can be wrong.
type redfishSystem struct {
	path     string
	id, uuid string
	state    string   // On, Off, or another state; empty: none reported
	target   string   // target of resets
	offered  []string // ResetTypes; empty: not reported
	info     string   // description of the action; empty: none
	settings string   // resource for the boot source; empty: the system itself
	boot     redfishBoot
	etags    []string // as sent by the controller
}

// redfishBoot describes a system's next boot.
type redfishBoot struct {
	mode    string   // UEFI or Legacy; empty: none
	modes   []string // accepted targets; empty: not reported
	targets []string // accepted modes; empty: not reported
}

// fields are the members of a JSON object. A member of another type reads as empty.
type fields map[string]json.RawMessage

func (f fields) text(name string) string { return text(f[name]) }

func (f fields) object(name string) fields {
	var out fields
	if json.Unmarshal(f[name], &out) != nil {
		return nil
	}
	return out
}

func (f fields) texts(name string) (out []string) {
	for _, v := range f.list(name) {
		if s := text(v); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func (f fields) list(name string) (out []json.RawMessage) {
	if json.Unmarshal(f[name], &out) != nil {
		return nil
	}
	return out
}

// link is the path of another resource: {"@odata.id": PATH}, or from some controllers only the path.
func (f fields) link(name string) string {
	if at := f.object(name).text("@odata.id"); at != "" {
		return at
	}
	return f.text(name)
}

func text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) != nil {
		return ""
	}
	return s
}

// readFields reads some members of a JSON object, one after the other, and keeps no others, because a controller may send many megabytes.
func readFields(r io.Reader, names ...string) (fields, error) {
	d := json.NewDecoder(skipMark(r))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.Join(errors.New("no JSON object"), err)
	}
	out := fields{}
	for d.More() {
		name, err := d.Token()
		var v json.RawMessage
		if err == nil {
			err = d.Decode(&v)
		}
		if err != nil {
			return nil, err
		}
		if key, _ := name.(string); slices.Contains(names, key) {
			out[key] = v
		}
	}
	return out, nil
}

// skipMark skips a byte order mark.
func skipMark(r io.Reader) io.Reader {
	mark := []byte("\xef\xbb\xbf")
	first := make([]byte, len(mark))
	n, _ := io.ReadFull(r, first) // a later read returns the error
	if first = first[:n]; bytes.Equal(first, mark) {
		return r
	}
	return io.MultiReader(bytes.NewReader(first), r)
}

// system reads one machine.
func (c *redfishClient) system(ctx context.Context, at string) (*redfishSystem, error) {
	resp, err := c.get(ctx, at, "Id", "UUID", "PowerState", "Boot", "Actions", "@odata.etag", "@Redfish.Settings")
	if err != nil {
		return nil, err
	}
	f, boot := resp.fields, resp.fields.object("Boot")
	action := f.object("Actions").object("#ComputerSystem.Reset")
	s := &redfishSystem{
		path: at, id: f.text("Id"), uuid: f.text("UUID"), state: powerState(f.text("PowerState")),
		target: action.text("target"), offered: action.texts("ResetType@Redfish.AllowableValues"), info: action.link("@Redfish.ActionInfo"),
		settings: f.object("@Redfish.Settings").link("SettingsObject"), etags: resp.etags(),
		boot: redfishBoot{mode: boot.text("BootSourceOverrideMode"), modes: boot.texts("BootSourceOverrideMode@Redfish.AllowableValues"),
			targets: boot.texts("BootSourceOverrideTarget@Redfish.AllowableValues")},
	}
	if s.id == "" {
		s.id = lastOf(at)
	}
	if s.target == "" { // the path in the specification
		s.target = strings.TrimSuffix(at, "/") + "/Actions/ComputerSystem.Reset"
	}
	return s, nil
}

// powerState writes On and Off as in the specification.
func powerState(said string) string {
	for _, known := range []string{stateOn, stateOff} {
		if strings.EqualFold(said, known) {
			return known
		}
	}
	return said
}

// resetTypes reads the ResetTypes of an action's own description.
func (c *redfishClient) resetTypes(ctx context.Context, at string) ([]string, error) {
	resp, err := c.get(ctx, at, "Parameters")
	if err != nil {
		return nil, err
	}
	for _, raw := range resp.fields.list("Parameters") {
		var p fields
		if json.Unmarshal(raw, &p) == nil && p.text("Name") == "ResetType" {
			return p.texts("AllowableValues"), nil
		}
	}
	return nil, nil
}

// choose returns the requested machine, by its path if that identifies it. It skips a member that can't be read.
func (c *redfishClient) choose(ctx context.Context, members []string) (*redfishSystem, error) {
	a := c.access
	named := slices.IndexFunc(members, func(m string) bool { return a.System != "" && lastOf(m) == a.System })
	switch {
	case len(members) == 0:
		return nil, fail.New(fail.NotFound, "the BMC has no machine").At(a.Address)
	case a.System == "" && len(members) == 1:
		named = 0
	}
	if named >= 0 {
		s, err := c.system(ctx, members[named])
		if err != nil {
			return nil, a.refused(err, "ask the BMC for its machine")
		}
		return s, nil
	}
	var names []string
	for _, m := range members {
		s, err := c.system(ctx, m)
		if err != nil {
			if ctx.Err() != nil {
				return nil, a.refused(err, "ask the BMC for its machine")
			}
			names = append(names, lastOf(m)+" (which can't be read)")
			continue
		}
		if s.id == a.System || a.System == "" && sameUUID(s.uuid, a.UUID) {
			return s, nil
		}
		names = append(names, s.id)
	}
	slices.Sort(names)
	return nil, fail.New(fail.NotFound, "which of the BMC's machines is meant is not known: it has %s", strings.Join(names, ", ")).At(a.Address).
		Do("name it: naupegos machine bmc MACHINE --system ID")
}

// lastOf returns the last part of a path.
func lastOf(at string) string {
	last := path.Base(strings.TrimSuffix(at, "/"))
	if plain, err := url.PathUnescape(last); err == nil {
		return plain
	}
	return last
}
