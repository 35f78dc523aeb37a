package machine

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
)

// Digest returns "sha256:<hex>" of the configuration in canonical form. Two configurations of the same machine have the same digest: order counts
// only for Units and Hooks, and an empty owner is root:root.
func (c Config) Digest() string {
	data, err := json.Marshal(c.Canonical())
	if err != nil {
		// Config contains only strings, numbers, booleans and byte slices, which always marshal.
		panic("machine: marshal configuration: " + err.Error())
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Canonical returns a copy with written-out defaults, sorted wherever order has no meaning.
func (c Config) Canonical() Config {
	c.Users = sortedStrings(c.Users)
	c.Directories = sorted(c.Directories, func(d Directory) string { return d.Path })
	for i := range c.Directories {
		c.Directories[i].Owner = owner(c.Directories[i].Owner)
	}
	c.Files = sorted(c.Files, func(f File) string { return f.Path })
	for i := range c.Files {
		c.Files[i].Owner = owner(c.Files[i].Owner)
		c.Files[i].Content = append([]byte{}, c.Files[i].Content...)
		if c.Files[i].RenewedAt != "" { // any initial certificate is as good as another
			c.Files[i].Content = []byte{}
		}
	}
	c.Links = sorted(c.Links, func(l Link) string { return l.Path })
	c.Binaries = sorted(c.Binaries, func(b Binary) string { return b.Path })
	c.Images = sorted(c.Images, func(i Image) string { return i.Digest })
	for i := range c.Images {
		c.Images[i].Refs = sortedStrings(c.Images[i].Refs)
	}
	c.Packages = sortedStrings(c.Packages)
	c.Modules = sortedStrings(c.Modules)
	if len(c.KernelArguments) == 0 {
		c.KernelArguments = nil
	}
	if len(c.Sysctls) == 0 {
		c.Sysctls = nil
	}
	c.Units = slices.Clone(c.Units)
	for i := range c.Units {
		u := &c.Units[i]
		u.DropIns = sorted(u.DropIns, func(d DropIn) string { return d.Name })
		u.Watches = sortedStrings(u.Watches)
	}
	if len(c.Units) == 0 {
		c.Units = nil
	}
	if len(c.Hooks) == 0 {
		c.Hooks = nil
	}
	return c
}

// DefaultOwner is the owner of files and directories without an explicit owner.
const DefaultOwner = "root:root"

func owner(o string) string {
	if o == "" {
		return DefaultOwner
	}
	return o
}

func sorted[T any](in []T, key func(T) string) []T {
	if len(in) == 0 {
		return nil
	}
	out := slices.Clone(in)
	slices.SortStableFunc(out, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
	return out
}

func sortedStrings(in []string) []string {
	out := sorted(in, func(s string) string { return s })
	return slices.Compact(out)
}
