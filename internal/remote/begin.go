package remote

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

const (
	// beganLine separates a command's output from that of the login's banner, profile and rc files. A login that never prints it has not run the
	// command, regardless of the exit status.
	beganLine = "naupegos:began\n"
	// sudoPrompt is sudo's password prompt on standard error.
	sudoPrompt = "naupegos:sudo-password:"
	// headLimit is the maximum length of the login's own output in an error.
	headLimit = 200
)

// wrap returns the command line that runs argv on h as root, in any login shell. It sets the C locale, because diagnose matches English messages.
// sudo reads the password from standard input, only after its prompt.
func (d *Dialer) wrap(h Host, argv []string) string {
	words := []string{"env", "LC_ALL=C"}
	switch {
	case h.user() == "root":
	case d.asksPassword(h):
		words = append(words, "sudo", "-S", "-p", sudoPrompt, "--")
	default:
		words = append(words, "sudo", "-n", "--")
	}
	script := "echo " + strings.TrimSpace(beganLine) + "; "
	if slices.ContainsFunc(argv, func(a string) bool { return strings.ContainsAny(a, special) }) {
		script += decode
		argv = encode(argv)
	}
	return quote(append(append(words, "sh", "-c", script+`exec "$@"`, "sh"), argv...))
}

// special are the characters that fish and csh interpret within single quotes.
const special = "\\\n!"

// decode undoes encode in any POSIX shell. fish and csh pass it on unchanged.
const decode = `for a do shift; a=$(printf %b_ "$a"); set -- "$@" "${a%_}"; done; `

// encode replaces special characters and quotes by printf's octal escapes.
func encode(argv []string) []string {
	r := strings.NewReplacer(`\`, `\0134`, "\n", `\0012`, "!", `\0041`, "'", `\0047`)
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = r.Replace(a)
	}
	return out
}

// asksPassword reports whether sudo on h may ask for a password.
func (d *Dialer) asksPassword(h Host) bool {
	return h.user() != "root" && h.Sudo != "" && d.o.SudoPassword != nil
}

// beginning watches the output of a wrapped command until the command begins.
type beginning struct {
	stdout io.Writer
	stderr io.Writer
	began  chan struct{} // closed when the command begins
	asked  chan struct{} // one value per password prompt of sudo

	mu     sync.Mutex
	done   bool
	head   []byte // output before the command, up to headLimit
	window []byte // the end of that output, which may contain the beginning of the line
	prompt []byte // the end of standard error, which may contain the beginning of a prompt

	again    bool      // sudo prompted a second time: it did not accept the password
	asking   bool      // the operator is asked for the password
	answered time.Time // when they answered
}

// ask notes that the operator is asked for a password, or has answered.
func (b *beginning) ask(asking bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking, b.answered = asking, time.Now()
}

// answeredAt returns the time from which the time limit of a login counts: from, or the operator's last answer, or the present while the operator is
// being asked.
func (b *beginning) answeredAt(from time.Time) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.asking:
		return time.Now()
	case b.answered.After(from):
		return b.answered
	}
	return from
}

func newBeginning(stdout, stderr io.Writer) *beginning {
	if stdout == nil {
		stdout = io.Discard
	}
	return &beginning{stdout: stdout, stderr: stderr, began: make(chan struct{}), asked: make(chan struct{}, 8)}
}

// out takes standard output.
func (b *beginning) out() io.Writer { return writerFunc(b.writeOut) }

// err takes standard error.
func (b *beginning) err() io.Writer { return writerFunc(b.writeErr) }

func (b *beginning) writeOut(p []byte) (int, error) {
	b.mu.Lock()
	if b.done {
		b.mu.Unlock()
		return b.stdout.Write(p)
	}
	if room := headLimit - len(b.head); room > 0 {
		b.head = append(b.head, p[:min(room, len(p))]...)
	}
	b.window = append(b.window, p...)
	at := bytes.Index(b.window, []byte(beganLine))
	if at < 0 {
		if over := len(b.window) - len(beganLine); over > 0 {
			b.window = append([]byte(nil), b.window[over:]...)
		}
		b.mu.Unlock()
		return len(p), nil
	}
	rest := b.window[at+len(beganLine):]
	b.done, b.window = true, nil
	b.mu.Unlock()
	close(b.began)
	if len(rest) == 0 {
		return len(p), nil
	}
	return len(p), writeAll(b.stdout, rest)
}

func (b *beginning) writeErr(p []byte) (n int, err error) {
	n = len(p)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		p = append(b.prompt, p...)
		b.prompt = nil
		return n, writeAll(b.stderr, p)
	}
	b.prompt = append(b.prompt, p...)
	for {
		at := bytes.Index(b.prompt, []byte(sudoPrompt))
		if at < 0 {
			break
		}
		if err := writeAll(b.stderr, b.prompt[:at]); err != nil {
			return 0, err
		}
		b.prompt = b.prompt[at+len(sudoPrompt):]
		select {
		case b.asked <- struct{}{}:
		default: // sudo prompts three times at most
		}
	}
	keep := 0 // as much of the end as may be the beginning of a prompt
	for n := min(len(b.prompt), len(sudoPrompt)-1); n > 0 && keep == 0; n-- {
		if strings.HasPrefix(sudoPrompt, string(b.prompt[len(b.prompt)-n:])) {
			keep = n
		}
	}
	out := b.prompt[:len(b.prompt)-keep]
	b.prompt = append([]byte(nil), b.prompt[len(out):]...)
	return n, writeAll(b.stderr, out)
}

func writeAll(w io.Writer, p []byte) error {
	_, err := w.Write(p)
	return err
}

// hasBegun reports whether the command began.
func (b *beginning) hasBegun() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.done
}

// setAgain notes that sudo prompted a second time.
func (b *beginning) setAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.again = true
}

// refusedPassword reports whether sudo did not accept the password.
func (b *beginning) refusedPassword() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.again
}

// said returns the login's own output before the command.
func (b *beginning) said() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.head)
}

// writerFunc adapts a function to io.Writer.
type writerFunc func([]byte) (int, error)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// oneLine converts a machine's output to one printable line for an error.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > headLimit {
		s = strings.ToValidUTF8(s[:headLimit], "") + "…"
	}
	return s
}

// feedBegun answers sudo's prompt with the password, and sends the input when the command begins. On a second prompt, which means that the password was
// wrong, it closes the input. After the command has ended, refused returns the error of the password's source.
func (d *Dialer) feedBegun(ctx context.Context, h Host, s *ssh.Session, stdin io.Reader, b *beginning) (refused func() error, err error) {
	if !d.asksPassword(h) {
		return func() error { return nil }, feed(s, stdin)
	}
	w, err := s.StdinPipe()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var failed error
	go func() {
		defer func() { _ = w.Close() }() // a command may exit without reading all input; its status tells the outcome
		for given := false; ; given = true {
			select {
			case <-ctx.Done():
				return
			case <-b.asked:
			case <-b.began:
				if stdin != nil {
					_, _ = io.Copy(w, stdin)
				}
				return
			}
			if given {
				b.setAgain()
				return
			}
			b.ask(true)
			password, err := d.o.SudoPassword(ctx, h)
			b.ask(false)
			if err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
				return
			}
			if password == "" {
				return
			}
			if _, err := io.WriteString(w, password+"\n"); err != nil {
				return // the command's status tells the outcome
			}
		}
	}()
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			return nil
		}
		return fail.Wrap(fail.KindOf(failed), failed, "get the password for sudo").At(h.where())
	}, nil
}
