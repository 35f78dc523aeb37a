package logs

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/logs"
)

// entry is a journal entry as journalctl prints it.
type entry struct {
	Time       string  `json:"__REALTIME_TIMESTAMP"` // microseconds
	Cursor     string  `json:"__CURSOR"`
	Message    message `json:"MESSAGE"`
	Unit       string  `json:"_SYSTEMD_UNIT"`
	About      string  `json:"UNIT"` // in systemd's own entries: the unit that they are about
	Identifier string  `json:"SYSLOG_IDENTIFIER"`
}

// message is a text, possibly made from bytes that are not UTF-8.
type message string

// UnmarshalJSON implements json.Unmarshaler. A field that occurs several times is an array of its values.
func (m *message) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*m = message(text)
		return nil
	}
	var numbers []int
	if json.Unmarshal(data, &numbers) == nil {
		b := make([]byte, len(numbers))
		for i, n := range numbers {
			b[i] = byte(n)
		}
		*m = message(b)
		return nil
	}
	var several []message
	if err := json.Unmarshal(data, &several); err != nil {
		return err
	}
	for i, s := range several {
		if i > 0 {
			*m += "\n"
		}
		*m += s
	}
	return nil
}

// journal reads the existing entries.
func (r *reading) journal(ctx context.Context, emit func(logs.Line) error) error {
	args := []string{}
	if !r.Since.IsZero() {
		args = append(args, "--since=@"+strconv.FormatInt(r.Since.Unix(), 10))
	}
	if r.Tail > 0 && r.Grep == "" {
		args = append(args, "--lines="+strconv.Itoa(r.Tail))
	}
	return r.journalctl(ctx, emit, args...)
}

// followJournal continues where journal stopped. It keeps following a unit that restarts, because journalctl selects by name.
func (r *reading) followJournal(ctx context.Context, emit func(logs.Line) error) error {
	args := []string{"--follow", "--lines=all"}
	if r.cursor != "" {
		args = append(args, "--after-cursor="+r.cursor)
	} else {
		args = append(args, "--since=@"+strconv.FormatInt(r.from.Unix(), 10))
	}
	return r.journalctl(ctx, emit, args...)
}

func (r *reading) journalctl(ctx context.Context, emit func(logs.Line) error, args ...string) error {
	args = append(args, "--quiet", "--no-pager", "--all", "--output=json", "--output-fields=MESSAGE,_SYSTEMD_UNIT,UNIT,SYSLOG_IDENTIFIER")
	for _, u := range r.Units {
		args = append(args, "--unit="+u)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := exec.CommandContext(ctx, cmp.Or(r.Journalctl, "journalctl"), args...)
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		return fail.Wrap(fail.Internal, err, "run journalctl")
	}
	read := r.entries(out, emit)
	if read != nil {
		cancel()
	}
	err = c.Wait()
	switch text, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); {
	case read != nil:
		return read
	case err != nil && text != "":
		return fail.New(fail.Internal, "journalctl: %s", text)
	case err != nil:
		return fail.Wrap(fail.Internal, err, "read the journal")
	}
	return nil
}

// entries reads journalctl's output.
func (r *reading) entries(out io.Reader, emit func(logs.Line) error) error {
	lines := bufio.NewReaderSize(out, longest)
	for {
		data, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil // a truncated entry was incomplete when journalctl ended
		}
		if err != nil {
			return fail.Wrap(fail.Internal, err, "read the journal")
		}
		var e entry
		if err := json.Unmarshal(data, &e); err != nil {
			return fail.Wrap(fail.Internal, err, "read an entry of the journal")
		}
		us, err := strconv.ParseInt(e.Time, 10, 64)
		if err != nil {
			return fail.Wrap(fail.Internal, err, "read the time of an entry of the journal")
		}
		r.cursor = e.Cursor
		l := logs.Line{Time: time.UnixMicro(us).UTC(), Unit: cmp.Or(e.About, e.Unit, e.Identifier)}
		for text := range strings.SplitSeq(strings.TrimRight(string(e.Message), "\n"), "\n") {
			l.Text = text[:min(len(text), longest)]
			if !r.wanted(l) {
				continue
			}
			if err := emit(l); err != nil {
				return err
			}
		}
	}
}
