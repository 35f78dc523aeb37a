package cloud

import (
	"slices"
	"sync"
)

// Kinds of Neutron resources that belong to extensions, which some clouds lack.
const (
	KindRouters  = "routers"
	KindGroups   = "security groups"
	KindFloating = "floating IPs"
)

// Lacks remembers which extension kinds the cloud does not know.
type Lacks struct {
	mu    sync.Mutex
	kinds map[string]bool
}

// Learns evaluates the error of a list, and reports whether the cloud does not know the kind.
func (l *Lacks) Learns(kind string, err error) bool {
	absent := Gone(err) && slices.Contains([]string{KindRouters, KindGroups, KindFloating}, kind)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kinds == nil {
		l.kinds = map[string]bool{}
	}
	if err == nil || absent {
		l.kinds[kind] = absent
	}
	return absent
}

// Has reports whether the cloud is known not to know a kind.
func (l *Lacks) Has(kind string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kinds[kind]
}
