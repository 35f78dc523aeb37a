package terminal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/naupegos/naupegos/internal/fail"
)

// Passphrase reads a passphrase from the first line of a file or, if file is empty, from the terminal; with twice it asks again, for a new
// passphrase.
func Passphrase(in io.Reader, w io.Writer, file string, twice bool) (string, error) {
	if file != "" {
		return passphraseFrom(file)
	}
	tty, ok := in.(*os.File)
	if !ok || !Is(tty) {
		return "", fail.New(fail.Refused, "cannot ask for a passphrase: standard input is not a terminal").Do("keep it in a file, and name that by --passphrase-file")
	}
	first, err := Secret(tty, w, "Passphrase: ")
	if err != nil {
		return "", err
	}
	if first == "" {
		return "", fail.New(fail.Invalid, "the passphrase is empty")
	}
	if !twice {
		return first, nil
	}
	second, err := Secret(tty, w, "The same again: ")
	if err == nil && second != first {
		err = fail.New(fail.Invalid, "the two passphrases differ").Do("run the same command again")
	}
	return first, err
}

func passphraseFrom(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", fail.Wrap(fail.Invalid, err, "read the passphrase")
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fail.Wrap(fail.Invalid, err, "read the passphrase")
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", fail.New(fail.Invalid, "the first line is empty; it must hold the passphrase").At(file)
	}
	return line, nil
}

// Asker returns a function that asks questions on a terminal without echoing the answers; nil if in is not a terminal.
func Asker(in io.Reader, w io.Writer) func(question string) (string, error) {
	tty, ok := in.(*os.File)
	if !ok || !Is(tty) {
		return nil
	}
	return func(question string) (string, error) { return Secret(tty, w, question) }
}

// Secret reads a line without echo. On Ctrl-C it restores the terminal and returns fail.Interrupted.
func Secret(in *os.File, w io.Writer, question string) (string, error) {
	fd := int(in.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return "", fail.Wrap(fail.Internal, err, "prepare the terminal")
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	type answer struct {
		text []byte
		err  error
	}
	read := make(chan answer, 1)
	fmt.Fprint(w, question)
	go func() { // if a signal comes first, it ends with the process
		text, err := term.ReadPassword(fd)
		read <- answer{text, err}
	}()
	select {
	case <-signals:
		fmt.Fprintln(w)
		err := term.Restore(fd, before)
		return "", errors.Join(fail.New(fail.Interrupted, "no passphrase: nothing was done"), err)
	case r := <-read:
		fmt.Fprintln(w)
		if r.err != nil && !errors.Is(r.err, io.EOF) {
			return "", fail.Wrap(fail.Internal, r.err, "read the passphrase")
		}
		return string(r.text), nil
	}
}
