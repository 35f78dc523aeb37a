package remote

import (
	"io"
	"sync"
)

// gate forwards writes until it is shut. An abandoned session may still write for a moment, when its writer belongs to the caller again.
type gate struct {
	mu sync.Mutex
	w  io.Writer
}

// Write implements io.Writer.
func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.w == nil {
		return len(p), nil
	}
	return g.w.Write(p)
}

// copyBuffer is the size of the buffer that waits for a session's output. Many sessions wait at once, so it is smaller than io.Copy's.
const copyBuffer = 4 << 10

// ReadFrom implements io.ReaderFrom, which a session uses to copy its output.
func (g *gate) ReadFrom(r io.Reader) (n int64, err error) {
	return io.CopyBuffer(writerFunc(g.Write), struct{ io.Reader }{r}, make([]byte, copyBuffer))
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.w = nil
}

// gates puts a gate before each writer of a session, and returns the function that shuts them.
func gates(stdout, stderr io.Writer) (out, errOut io.Writer, shut func()) {
	a, b := &gate{w: stdout}, &gate{w: stderr}
	return a, b, func() { a.shut(); b.shut() }
}
