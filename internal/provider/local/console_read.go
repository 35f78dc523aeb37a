package local

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/naupegos/naupegos/internal/tool"
)

// ConsoleFile is where a machine's console log lies; it need not exist. Bounded: it starts over at 1 MiB.
func (p *Provider) ConsoleFile(name string) string { return consoleFile(p.n.machine(name)) }

// Console returns the end of a machine's console log, at most limit bytes; nothing where it has not booted yet.
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
