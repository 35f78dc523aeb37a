package v1alpha1

import (
	"encoding"
	"reflect"
	"strconv"
	"time"

	"github.com/naupegos/naupegos/api/strict"
)

// The limits of every duration in a document.
const (
	MinDuration = 10 * time.Second
	MaxDuration = 24 * time.Hour
)

// Default fills in fields that the document leaves out. Defaults that depend on other fields are set here, all others come from the struct tags.
// Default is idempotent.
func (c *Cluster) Default() {
	if h := c.Spec.Provider.Hosts; h != nil {
		c.defaultHosts(h)
	}
	if p := c.Spec.Provider; (p.Hosts != nil || p.Metal != nil) && c.Spec.Security.PacketFilter == nil {
		c.Spec.Security.PacketFilter = &PacketFilter{}
	}
	c.defaultEndpoint()
	for i := range c.Spec.Workers {
		if p := &c.Spec.Workers[i]; p.Scales() && p.Replicas == nil {
			n := max(p.Least(), 1)
			p.Replicas = &n
		}
	}
	if u := &c.Spec.Unattended; u.Autoscale && u.AutoscalePort == 0 {
		u.AutoscalePort = defaultAutoscalePort
	}
	c.defaultAddons()
	t := &c.Spec.Timeouts
	stepGiven := t.Step.Duration != 0
	k := &c.Spec.Kubernetes
	k.VersionLeftOut = k.VersionLeftOut || k.Version == ""
	applyDefaults(reflect.ValueOf(c).Elem())
	if !stepGiven {
		longest := max(t.Step.Duration, t.MachineBoot.Duration, t.NodeReady.Duration, t.Drain.Duration)
		t.Step.Duration = min(longest, MaxDuration)
	}
}

// defaultEndpoint sets the kind, and the fields that the kind needs.
func (c *Cluster) defaultEndpoint() {
	e := &c.Spec.Endpoint
	if e.Kind == "" {
		switch {
		case e.Address != "":
			e.Kind = EndpointAddress
		case e.Octavia != nil:
			e.Kind = EndpointOctavia
		default:
			e.Kind = EndpointGateways
		}
	}
	if e.Kind == EndpointGateways && e.Gateways == nil {
		e.Gateways = &Gateways{}
	}
	if h := c.Spec.Provider.Hosts; h != nil && e.Gateways != nil && e.Gateways.Replicas == 0 {
		e.Gateways.Replicas = h.Count(RoleGateway, "")
	}
	if e.Kind == EndpointOctavia && e.Octavia == nil {
		e.Octavia = &Octavia{}
	}
	if os := c.Spec.Provider.OpenStack; os != nil && os.Network.Existing == "" && os.Network.CIDR == "" {
		os.Network.CIDR = defaultOpenStackCIDR
	}
	if _, port := e.AddressHostPort(); e.Kind == EndpointAddress && e.Port == 0 {
		e.Port = port
	}
	c.defaultDNSName()
}

// defaultHosts derives pools, counts and names from the list of machines.
func (c *Cluster) defaultHosts(h *Hosts) {
	pools := &c.Spec.Workers
	derive := len(*pools) == 0
	seen := map[string]int{}
	for i := range h.Machines {
		m := &h.Machines[i]
		if m.Role == RoleWorker && m.Pool == "" {
			switch {
			case derive:
				m.Pool = "general"
			case len(*pools) == 1:
				m.Pool = (*pools)[0].Name
			}
		}
		group := m.Role + "/" + m.Pool
		if derive && m.Role == RoleWorker && seen[group] == 0 {
			*pools = append(*pools, Pool{Name: m.Pool})
		}
		seen[group]++
		if m.Name == "" && m.Role != "" && c.Metadata.Name != "" && (m.Role != RoleWorker || m.Pool != "") {
			m.Name = MachineName(c.Metadata.Name, m.Role, m.Pool, seen[group])
		}
	}
	for i := range *pools {
		p := &(*pools)[i]
		if n := seen[RoleWorker+"/"+p.Name]; p.Replicas == nil {
			p.Replicas = &n
		}
	}
	if c.Spec.ControlPlane.Replicas == 0 {
		c.Spec.ControlPlane.Replicas = h.Count(RoleControlPlane, "")
	}
}

// Count counts the machines of a role and, unless pool is empty, a pool.
func (h *Hosts) Count(role, pool string) int {
	n := 0
	for i := range h.Machines {
		if h.Machines[i].Role == role && (pool == "" || h.Machines[i].Pool == pool) {
			n++
		}
	}
	return n
}

// applyDefaults sets every zero field, in v and below, that has a default in its tag.
func applyDefaults(v reflect.Value) {
	for _, f := range strict.FieldsOf(v.Type()) {
		fv := v.Field(f.Index)
		if f.Default != "" && fv.IsZero() {
			if fv.Kind() == reflect.Pointer {
				fv.Set(reflect.New(f.Type.Elem()))
				fv = fv.Elem()
			}
			setText(fv, f.Default)
			continue
		}
		for fv.Kind() == reflect.Pointer && !fv.IsNil() {
			fv = fv.Elem()
		}
		switch {
		case fv.Kind() == reflect.Struct && !strict.IsText(fv.Type()):
			applyDefaults(fv)
		case fv.Kind() == reflect.Slice && fv.Type().Elem().Kind() == reflect.Struct:
			for i := range fv.Len() {
				applyDefaults(fv.Index(i))
			}
		}
	}
}

// setText sets v from the text of a tag. It panics on errors: the tags are our own, and a test reads them all.
func setText(v reflect.Value, s string) {
	var err error
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Int:
		var i int
		i, err = strconv.Atoi(s)
		v.SetInt(int64(i))
	case reflect.Bool:
		v.SetBool(s == "true")
	default:
		if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
			err = u.UnmarshalText([]byte(s))
		}
	}
	if err != nil {
		panic("struct tag: " + err.Error())
	}
}
