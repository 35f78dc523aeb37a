package openstack

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/provider"
)

// Keys of tags ("key=value": Neutron, Octavia) and of metadata (with underscores: Nova, Cinder).
const (
	keyPrefix  = "naupegos-"
	keyCluster = keyPrefix + "cluster"
	keyMachine = keyPrefix + "machine"
	keyRole    = keyPrefix + "role"
	keyPool    = keyPrefix + "pool"
	keyIndex   = keyPrefix + "index"
	keyShape   = keyPrefix + "shape"
)

// names makes the names and marks of one cluster's resources.
type names struct {
	id      string // of the cluster
	cluster string // its name
}

// mark is the tag that everything of the cluster carries, and the whole description of what Neutron and Octavia keep:
// a description can be given with the create call, and be asked for, where a tag is a second call.
func (n names) mark() string { return keyCluster + "=" + n.id }

// name of a resource that exists once in the cluster, or once for each role and pool. Cluster IDs hold no dots, so names of
// different clusters never meet.
func (n names) name(parts ...string) string {
	return strings.Join(append([]string{n.id}, parts...), ".")
}

// owns reports whether a name was made by name.
func (n names) owns(name string) bool { return name == n.id || strings.HasPrefix(name, n.id+".") }

// tags lists the marks of a resource that has tags; machine may be the zero value.
func (n names) tags(m provider.MachineSpec) []string {
	out := []string{n.mark()}
	for _, kv := range machineMarks(m) {
		out = append(out, kv[0]+"="+kv[1])
	}
	return out
}

// roleTags lists the marks of a resource of a role ("control-plane", or "vip", "api": whatever tells it from its like).
func (n names) roleTags(role string) []string { return []string{n.mark(), keyRole + "=" + role} }

// metadata lists the marks of a server or volume.
func (n names) metadata(m provider.MachineSpec) map[string]string {
	out := map[string]string{underscored(keyCluster): n.id}
	for _, kv := range machineMarks(m) {
		out[underscored(kv[0])] = kv[1]
	}
	return out
}

func machineMarks(m provider.MachineSpec) [][2]string {
	if m.Name == "" {
		return nil
	}
	out := [][2]string{{keyMachine, m.Name}, {keyRole, string(m.Role)}, {keyIndex, strconv.Itoa(m.Index)}}
	if m.Pool != "" {
		out = append(out, [2]string{keyPool, m.Pool})
	}
	return out
}

func underscored(key string) string { return strings.ReplaceAll(key, "-", "_") }

// tagged returns the value of a tag "key=value".
func tagged(tags []string, key string) string {
	for _, t := range tags {
		if v, ok := strings.CutPrefix(t, key+"="); ok {
			return v
		}
	}
	return ""
}

// ours reports whether what Neutron or Octavia keeps is the cluster's.
func (n names) ours(description string, tags []string) bool {
	return description == n.mark() || slices.Contains(tags, n.mark())
}

// serverTag is the Nova tag that servers are listed by. Nova allows 60 characters, so it is a digest; the metadata say exactly.
func (n names) serverTag() string {
	sum := sha256.Sum256([]byte(n.id))
	return "naupegos-" + hex.EncodeToString(sum[:16])
}

// machineOf reads back what name and marks of a half-made resource say of its machine.
func (n names) machineOf(name string, mark func(key string) string) (provider.MachineSpec, bool) {
	m := provider.MachineSpec{Name: mark(keyMachine), Role: provider.Role(mark(keyRole)), Pool: mark(keyPool)}
	m.Index, _ = strconv.Atoi(mark(keyIndex)) // 0 is what is missing
	if m.Name != "" && m.Role != "" && m.Index > 0 {
		return m, true
	}
	return n.parseMachine(name)
}

// parseMachine takes a machine's name apart, for what was made but not marked yet.
func (n names) parseMachine(name string) (provider.MachineSpec, bool) {
	m := provider.MachineSpec{Name: name}
	rest, ok := strings.CutPrefix(name, n.cluster+"-")
	if !ok {
		return m, false
	}
	dash := strings.LastIndexByte(rest, '-')
	if dash < 1 {
		return m, false
	}
	index, err := strconv.Atoi(rest[dash+1:])
	if err != nil || index < 1 {
		return m, false
	}
	m.Index = index
	switch group := rest[:dash]; group {
	case "cp":
		m.Role = provider.ControlPlane
	case "gw":
		m.Role = provider.Gateway
	default:
		m.Role, m.Pool = provider.Worker, group
	}
	return m, true
}
