package v1alpha1

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/naupegos/naupegos/api/strict"
)

// HostUse says what a field has to do with the host that Naupegos runs on, and with its network. The struct tag "host" holds it. A test demands the
// tag of every field whose name suggests a file, an address, a key or a port.
type HostUse string

// The uses.
const (
	HostFile       HostUse = "file"       // Naupegos opens the file
	HostDirectory  HostUse = "directory"  // Naupegos reads and writes the directory
	HostAddress    HostUse = "address"    // Naupegos connects there, and mostly sends what signs in
	HostCluster    HostUse = "cluster"    // Naupegos connects there and talks only to a server with a certificate of the cluster's authorities
	HostPort       HostUse = "port"       // Naupegos listens there
	HostCredential HostUse = "credential" // names a credential; where it is left out, the section takes files and variables of the host
	HostRelease    HostUse = "release"    // Naupegos gets this release of Kubernetes
	HostSession    HostUse = "session"    // Naupegos uses the operator's environment variable, SSH agent or terminal
	HostNone       HostUse = "none"       // nothing, although the name of the field suggests it
)

// hostUses lists the uses that a tag may hold.
var hostUses = []HostUse{HostFile, HostDirectory, HostAddress, HostCluster, HostPort, HostCredential, HostRelease, HostSession, HostNone}

// HostField is a field of a document that uses something of the host or of its network.
type HostField struct {
	Path  string // as in errors: "spec.provider.hosts.machines[0].address"
	Use   HostUse
	Value string // empty only with HostCredential
}

// HostFields lists every field of a document that uses something of the host or of its network, by the tags of the types. A credential that a
// section leaves out is listed, too, with an empty value: the section would take files and variables of the host.
func (c *Cluster) HostFields() []HostField {
	var all []HostField
	hostFields(reflect.ValueOf(c).Elem(), "", &all)
	return all
}

// identified is a section that may do without a credential.
type identified interface{ needsCredential() bool }

// needsCredential reports whether the method of signing in takes a secret: method kubernetes takes what the pod has anyway.
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

// descend looks into what a field holds.
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

// credentialName is how a credential is called.
var credentialName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?$`)

// IsCredentialName reports whether a credential may be called so.
func IsCredentialName(name string) bool { return credentialName.MatchString(name) }

// checkCredential checks the name of a credential, and that no file is named beside it.
func checkCredential(r *findings, at, field, file, name string) {
	switch {
	case name == "":
	case !IsCredentialName(name):
		r.Add(at+".credential", strict.Quote(name)+" is not the name of a credential", "up to 63 lower-case letters, digits, dots and dashes; naupegos server credential list shows them")
	case file != "":
		r.Add(at+".credential", "names a credential, and "+field+" a file", "keep one of them", at+"."+strings.TrimPrefix(field, "."))
	}
}
