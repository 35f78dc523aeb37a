// Package terminal reads from the terminal of a verb, one-line answers and passphrases without echo, and measures its width.
//
// It depends on neither verbs nor clusters.
package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/naupegos/naupegos/internal/fail"
)

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Only returns w if it is a terminal, else nil.
func Only(w io.Writer) io.Writer {
	if Is(w) {
		return w
	}
	return nil
}

// Width returns the number of columns: a terminal's own, else 120.
func Width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 120
}

// Limit returns the number of a terminal's columns, or 0 if w is none.
func Limit(w io.Writer) int {
	if !Is(w) {
		return 0
	}
	return Width(w)
}

// Answer reads one line. Ctrl-C counts as an empty answer, so that the caller releases its lease and other resources.
func Answer(in io.Reader, w io.Writer) (string, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() { // if a signal comes first, it ends with the process
		line, err := bufio.NewReader(in).ReadString('\n')
		read <- answer{line, err}
	}()
	select {
	case <-signals:
		fmt.Fprintln(w)
		return "", nil
	case r := <-read:
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return "", fail.Wrap(fail.Internal, r.err, "read the answer")
		}
		return r.line, nil
	}
}

// Confirm asks a question. The answer that confirms is typed or, if typed is empty, y.
func Confirm(in io.Reader, w io.Writer, question, typed string) error {
	if typed == "" {
		fmt.Fprintf(w, "%s [y/N] ", question)
	} else {
		fmt.Fprintf(w, "%s Type %s to confirm: ", question, typed)
	}
	line, err := Answer(in, w)
	if err != nil {
		return err
	}
	line = strings.TrimSpace(line)
	if typed != "" && line == typed || typed == "" && slices.Contains([]string{"y", "yes"}, strings.ToLower(line)) {
		return nil
	}
	return fail.New(fail.Interrupted, "not confirmed: nothing was changed")
}
