package show

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// NoteWriter returns a writer for a stream of events in JSON: it turns each line of other text into a note.
func NoteWriter(w io.Writer) io.Writer { return &notes{lines: newJSONLines(w), out: w} }

type notes struct {
	mu    sync.Mutex
	out   io.Writer
	lines *jsonLines
	rest  []byte // of a line that has not ended
}

// Write implements io.Writer.
func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rest = append(n.rest, p...)
	for {
		line, rest, whole := bytes.Cut(n.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		n.rest = rest
		var err error
		switch text := bytes.TrimSpace(line); {
		case len(text) == 0:
		case text[0] == '{':
			_, err = n.out.Write(append(line, '\n'))
		default:
			err = n.lines.enc.Encode(lineJSON{Event: "note", Time: time.Now(), Text: string(text)})
		}
		if err != nil {
			return 0, err
		}
	}
}
