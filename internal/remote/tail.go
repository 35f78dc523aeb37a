package remote

import (
	"bytes"
	"errors"
	"strings"
	"sync"
)

// tailWriter keeps the last bytes that were written to it.
type tailWriter struct {
	mu    sync.Mutex
	limit int
	data  []byte
	cut   bool
}

// Write implements io.Writer.
func (t *tailWriter) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - t.limit; over > 0 {
		t.data, t.cut = append([]byte(nil), t.data[over:]...), true
	}
	return len(p), nil
}

// String returns the kept bytes, trimmed.
func (t *tailWriter) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := strings.TrimSpace(strings.ToValidUTF8(string(t.data), ""))
	if t.cut {
		s = "…" + s
	}
	return s
}

// limitedBuffer keeps written data up to a limit. A write beyond it fails.
type limitedBuffer struct {
	bytes.Buffer
	limit int
	full  func() // called when the limit is exceeded
	over  bool
}

// Write implements io.Writer.
func (b *limitedBuffer) Write(p []byte) (int, error) {
	if b.over = b.over || b.Len()+len(p) > b.limit; b.over {
		b.full()
		return 0, errors.New("too much output")
	}
	return b.Buffer.Write(p)
}
