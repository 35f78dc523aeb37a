// Package pkitest helps tests of certificates: it has secrets in memory, an issuer, and an authority for a test's servers and clients.
//
// It is for tests only and knows only the pki package's interface.
package pkitest

import (
	"context"
	"slices"
	"sync"

	"github.com/naupegos/naupegos/internal/fail"
)

// MemorySecrets keeps secrets in memory. The zero value is ready to use.
type MemorySecrets struct {
	mu     sync.Mutex
	values map[string][]byte
	// Err, if set, is returned by every call.
	Err error
}

// Get implements pki.Secrets.
func (m *MemorySecrets) Get(_ context.Context, name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.values[name]
	if m.Err != nil {
		return nil, m.Err
	}
	if !ok {
		return nil, fail.New(fail.NotFound, "there is no secret %q", name)
	}
	return slices.Clone(v), nil
}

// Put implements pki.Secrets.
func (m *MemorySecrets) Put(_ context.Context, name string, value []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.put(name, value)
}

func (m *MemorySecrets) put(name string, value []byte) error {
	if m.Err != nil {
		return m.Err
	}
	if m.values == nil {
		m.values = map[string][]byte{}
	}
	m.values[name] = slices.Clone(value)
	return nil
}

// PutIfAbsent implements pki.Secrets.
func (m *MemorySecrets) PutIfAbsent(_ context.Context, name string, value []byte) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.values[name]; ok && m.Err == nil {
		return slices.Clone(v), nil
	}
	return slices.Clone(value), m.put(name, value)
}

// Delete implements pki.Secrets.
func (m *MemorySecrets) Delete(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Err == nil {
		delete(m.values, name)
	}
	return m.Err
}

// Names implements pki.Secrets.
func (m *MemorySecrets) Names(context.Context) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Err != nil {
		return nil, m.Err
	}
	var names []string
	for n := range m.values {
		names = append(names, n)
	}
	return names, nil
}

// Forget removes a secret, even while Err is set.
func (m *MemorySecrets) Forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, name)
}
