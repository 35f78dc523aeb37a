package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/naupegos/naupegos/internal/tool"
)

// console is a machine's console log: a file of at most limit bytes. A full file is renamed to .1, replacing the previous one.
type console struct {
	mu    sync.Mutex
	path  string
	limit int64
	file  *os.File
	size  int64
}

const consoleLimit = 1 << 20

func openConsole(path string, limit int64) (*console, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &console{path: path, limit: limit, file: f, size: info.Size()}, nil
}

// Write appends p, and begins a new file first if p does not fit in the current one.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size > 0 && c.size+int64(len(p)) > c.limit {
		if err := os.Rename(c.path, c.path+".1"); err != nil {
			return 0, err
		}
		f, err := os.OpenFile(c.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return 0, err
		}
		if err := c.file.Close(); err != nil {
			return 0, errors.Join(err, f.Close())
		}
		c.file, c.size = f, 0
	}
	n, err := c.file.Write(p)
	c.size += int64(n)
	return n, err
}

// consoleTail returns the last lines of a machine's console log, for an error's text.
func consoleTail(dir string, lines int) string {
	f, err := os.Open(consoleFile(dir))
	if err != nil {
		return ""
	}
	defer f.Close()
	const tail = 16 << 10
	if info, err := f.Stat(); err == nil && info.Size() > tail {
		if _, err := f.Seek(-tail, io.SeekEnd); err != nil {
			return ""
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, tail))
	if err != nil {
		return ""
	}
	return tool.LastLines(tool.Printable(string(data)), lines)
}

// ConsoleFile returns the path of a machine's console log, which need not exist. The log is rotated at 1 MiB.
func (p *Provider) ConsoleFile(name string) string { return consoleFile(p.n.machine(name)) }

// Console returns the end of a machine's console log, at most limit bytes; nil if it has never booted.
func (p *Provider) Console(name string, limit int64) ([]byte, error) {
	f, err := os.Open(consoleFile(p.n.machine(name)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.Size() > limit {
		if _, err := f.Seek(-limit, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit))
	return []byte(tool.Printable(string(data))), err
}
