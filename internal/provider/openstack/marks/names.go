package marks

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/naupegos/naupegos/internal/provider"
)

// Keys of tags ("key=value": Neutron, Octavia) and of metadata (with underscores: Nova, Cinder).
const (
	KeyPrefix  = "naupegos-"
	KeyCluster = KeyPrefix + "cluster"
	KeyMachine = KeyPrefix + "machine"
	KeyRole    = KeyPrefix + "role"
	keyPool    = KeyPrefix + "pool"
	keyIndex   = KeyPrefix + "index"
	KeyShape   = KeyPrefix + "shape"
	KeyVolume  = KeyPrefix + "volume"
)

// Names makes the names and marks of one cluster's resources.
type Names struct {
	ID      string // of the cluster
	Cluster string // its name
	Site    Site
}

// Mark returns the tag of all the cluster's resources, which is also the whole description of those in Neutron and Octavia: a create call can
// set a description, and a list can filter by it, while a tag takes a second call.
func (n Names) Mark() string { return KeyCluster + "=" + n.ID }

// Name returns the name of a resource that exists once in the cluster, or once for each role and pool. Cluster IDs contain no dots, so names
// of different clusters never collide.
func (n Names) Name(parts ...string) string {
	return strings.Join(append([]string{n.ID}, parts...), ".")
}

// Owns reports whether Name made a name.
func (n Names) Owns(name string) bool { return name == n.ID || strings.HasPrefix(name, n.ID+".") }

// Tags lists the marks of a resource that has tags; machine may be the zero value.
func (n Names) Tags(m provider.MachineSpec) []string {
	out := []string{n.Mark()}
	for _, kv := range machineMarks(m) {
		out = append(out, kv[0]+"="+kv[1])
	}
	return append(out, n.Site.tags()...)
}

// RoleTags lists the marks of a resource with a role ("control-plane", or another distinction such as "vip", "api").
func (n Names) RoleTags(role string) []string {
	return append([]string{n.Mark(), KeyRole + "=" + role}, n.Site.tags()...)
}

// Metadata lists the marks of a server or volume.
func (n Names) Metadata(m provider.MachineSpec) map[string]string {
	out := map[string]string{Underscored(KeyCluster): n.ID}
	for _, kv := range machineMarks(m) {
		out[Underscored(kv[0])] = kv[1]
	}
	maps.Copy(out, n.Site.metadata())
	return out
}

// ServerTags lists the tags of a server.
func (n Names) ServerTags() []string { return append([]string{n.ServerTag()}, n.Site.tags()...) }

func machineMarks(m provider.MachineSpec) [][2]string {
	if m.Name == "" {
		return nil
	}
	out := [][2]string{{KeyMachine, m.Name}, {KeyRole, string(m.Role)}, {keyIndex, strconv.Itoa(m.Index)}}
	if m.Pool != "" {
		out = append(out, [2]string{keyPool, m.Pool})
	}
	return out
}

// Underscored returns a key in its form for metadata.
func Underscored(key string) string { return strings.ReplaceAll(key, "-", "_") }

// Tagged returns the value of a tag "key=value".
func Tagged(tags []string, key string) string {
	for _, t := range tags {
		if v, ok := strings.CutPrefix(t, key+"="); ok {
			return v
		}
	}
	return ""
}

// Ours reports whether a resource of Neutron or Octavia belongs to the cluster.
func (n Names) Ours(description string, tags []string) bool {
	return description == n.Mark() || slices.Contains(tags, n.Mark())
}

// ServerTag returns the Nova tag for listing the cluster's servers. Nova allows 60 characters, so it is a digest; the metadata contain the
// full ID.
func (n Names) ServerTag() string {
	sum := sha256.Sum256([]byte(n.ID))
	return "naupegos-" + hex.EncodeToString(sum[:16])
}

// MachineOf reconstructs the machine that a resource belongs to from the resource's marks or, if these are incomplete, its name.
func (n Names) MachineOf(name string, mark func(key string) string) (provider.MachineSpec, bool) {
	m := provider.MachineSpec{Name: mark(KeyMachine), Role: provider.Role(mark(KeyRole)), Pool: mark(keyPool)}
	m.Index, _ = strconv.Atoi(mark(keyIndex)) // 0 if missing
	if m.Name != "" && m.Role != "" && m.Index > 0 {
		return m, true
	}
	return n.parseMachine(name)
}

// parseMachine parses a machine's name, for resources that are not marked yet.
func (n Names) parseMachine(name string) (provider.MachineSpec, bool) {
	m := provider.MachineSpec{Name: name}
	rest, ok := strings.CutPrefix(name, n.Cluster+"-")
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
