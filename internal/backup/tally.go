package backup

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"maps"
	"slices"
	"strings"
)

// Tally counts and digests Kubernetes' keys in etcd by kind.
type Tally struct {
	keys  int64
	kinds map[string]*kind
}

type kind struct {
	count int64
	h     hash.Hash
}

// Add counts a key. Keys must come in ascending order: the digests depend on it.
func (t *Tally) Add(key, value []byte) {
	if t.kinds == nil {
		t.kinds = map[string]*kind{}
	}
	name := kindOf(string(key))
	k := t.kinds[name]
	if k == nil {
		k = &kind{h: sha256.New()}
		t.kinds[name] = k
	}
	t.keys++
	k.count++
	for _, b := range [][]byte{key, value} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		_, _ = k.h.Write(n[:]) // hashes never fail
		_, _ = k.h.Write(b)
	}
}

// Into stores the counts in the description of a snapshot.
func (t *Tally) Into(e *Etcd) {
	e.Keys, e.Objects = t.keys, nil
	for _, name := range slices.Sorted(maps.Keys(t.kinds)) {
		k := t.kinds[name]
		e.Objects = append(e.Objects, Objects{name, k.count, hex.EncodeToString(k.h.Sum(nil))})
	}
}

// kindOf returns the kind of a key below /registry/: its resource, preceded by its group if the key has one.
func kindOf(key string) string {
	parts := strings.Split(strings.TrimPrefix(strings.TrimPrefix(key, "/"), "registry/"), "/")
	n := 1
	if len(parts) > 2 && (strings.Contains(parts[0], ".") || parts[0] == "services" || parts[0] == "ranges") {
		n = 2 // a group; or endpoints and specs of Services
	}
	return strings.Join(parts[:n], "/")
}
