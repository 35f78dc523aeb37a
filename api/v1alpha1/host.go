package v1alpha1

import (
	"fmt"
	"reflect"
	"regexp"

	"github.com/naupegos/naupegos/api/strict"
)

// HostUse says how a field uses the host on which Naupegos runs, or the host's network. It is the value of the struct tag "host". A test requires the
// tag for every field whose name suggests a file, an address, a key or a port.
type HostUse string

// The uses.
const (
	HostFile       HostUse = "file"       // Naupegos opens the file
	HostDirectory  HostUse = "directory"  // Naupegos reads and writes the directory
	HostAddress    HostUse = "address"    // Naupegos connects there, and usually sends login secrets
	HostCluster    HostUse = "cluster"    // Naupegos connects there, but only to a server with a certificate of the cluster's authorities
	HostPort       HostUse = "port"       // Naupegos listens there
	HostCredential HostUse = "credential" // names a credential; if it is left out, the section uses files and variables of the host
	HostRelease    HostUse = "release"    // Naupegos obtains this release of Kubernetes
	HostSession    HostUse = "session"    // Naupegos uses the operator's environment variable, SSH agent or terminal
	HostNone       HostUse = "none"       // no use, although the name of the field suggests one
)

// hostUses lists the valid values of the tag.
var hostUses = []HostUse{HostFile, HostDirectory, HostAddress, HostCluster, HostPort, HostCredential, HostRelease, HostSession, HostNone}

// HostField is a field of a document that uses the host or its network.
type HostField struct {
	Path  string // as in errors: "spec.provider.hosts.machines[0].address"
	Use   HostUse
	Value string // empty only with HostCredential
}

// HostFields lists every field of a document that uses the host or its network, according to the tags of the types. It includes, with an empty value,
// credentials that a section leaves out, because the section then uses files and variables of the host.
func (c *Cluster) HostFields() []HostField {
	var all []HostField
	hostFields(reflect.ValueOf(c).Elem(), "", &all)
	return all
}

// identified is a section that may need no credential.
type identified interface{ needsCredential() bool }

// needsCredential reports whether the login method needs a secret: method kubernetes uses the pod's own token.
func (a VaultAuth) needsCredential() bool { return a.Method != VaultKubernetes }

func hostFields(v reflect.Value, path string, all *[]HostField) {
	for _, f := range strict.FieldsOf(v.Type()) {
		fv, p := v.Field(f.Index), strict.Join(path, f.Key)
		use := HostUse(v.Type().Field(f.Index).Tag.Get("host"))
		if s, ok := v.Interface().(identified); use == HostCredential && ok && !s.needsCredential() && fv.IsZero() {
			continue
		}
		if use != "" && use != HostNone && (use == HostCredential || !fv.IsZero()) {
			*all = append(*all, HostField{p, use, fmt.Sprint(fv.Interface())})
		}
		descend(fv, p, all)
	}
}

// descend visits the contents of a field.
func descend(v reflect.Value, path string, all *[]HostField) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			descend(v.Elem(), path, all)
		}
	case reflect.Struct:
		if !strict.IsText(v.Type()) {
			hostFields(v, path, all)
		}
	case reflect.Slice:
		for i := range v.Len() {
			descend(v.Index(i), strict.Item(path, i), all)
		}
	}
}

// credentialName matches valid names of credentials.
var credentialName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// IsCredentialName reports whether a name is valid for a credential.
func IsCredentialName(name string) bool { return credentialName.MatchString(name) }
