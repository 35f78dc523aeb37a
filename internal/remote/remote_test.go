package remote

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func TestRun(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{}, key)
	nasty := []string{"", "a b", "it's", "$HOME", "`id`", `"\`, "*", "a\nb", "-n", "ä;|&<>()"}
	out, err := d.Run(t.Context(), s.host("m"), nil, append([]string{"printf", "%s\\0"}, nasty...)...)
	testkit.Must(t, err)
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); strings.Join(got, "|") != strings.Join(nasty, "|") {
		t.Errorf("the other side saw %q", got)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	out, err = d.Run(t.Context(), s.host("m"), bytes.NewReader(big), "cat")
	if err != nil || !bytes.Equal(out, big) {
		t.Errorf("cat gave %d of %d bytes back: %v", len(out), len(big), err)
	}
	_, err = d.Run(t.Context(), s.host("m"), nil, "sh", "-c", "echo oops >&2; exit 5")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Status != 5 || exit.Stderr != "oops" || fail.KindOf(err) != fail.Internal {
		t.Errorf("error %v", err)
	}
	has(t, err, "m (127.0.0.1:", "sh ended with status 5: oops")
	if n := s.Logins.Load(); n != 1 {
		t.Errorf("%d connections for one host", n)
	}
}

// A command that does not read its input must not wait for it.
func TestRunDoesNotWaitForStdin(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{}, key)
	r, w := io.Pipe()
	defer func() { _ = w.Close() }()
	_, err := d.Run(t.Context(), s.host("m"), r, "true")
	testkit.Must(t, err)
}

func TestManyCommandsShareOneConnection(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{Sessions: 3}, key)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := d.Run(t.Context(), s.host("m"), nil, "true"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.Logins.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}

func TestWrap(t *testing.T) {
	begin := ` sh -c 'echo naupegos:began; exec "$@"' sh `
	plain, asks := &Dialer{}, &Dialer{o: Options{SudoPassword: func(context.Context, Host) (string, error) { return "", nil }}}
	for _, c := range []struct{ got, want string }{
		{plain.wrap(Host{User: "debian"}, []string{"cat", "/a b"}), "env LC_ALL=C sudo -n --" + begin + "cat '/a b'"},
		{asks.wrap(Host{User: "debian", Sudo: "prompt"}, []string{"cat"}), "env LC_ALL=C sudo -S -p naupegos:sudo-password: --" + begin + "cat"},
		{asks.wrap(Host{}, []string{"cat"}), "env LC_ALL=C" + begin + "cat"},
	} {
		if c.got != c.want {
			t.Errorf("command %s, want %s", c.got, c.want)
		}
	}
}

func TestChangedHostKey(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{}, key)
	h := s.host("m")
	other := newKey(t)
	h.HostKeys = []string{PublicKey(other)}
	_, err := d.Run(t.Context(), h, nil, "true")
	if fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("kind %v", fail.KindOf(err))
	}
	has(t, err, "m (", ssh.FingerprintSHA256(other.PublicKey()), ssh.FingerprintSHA256(s.HostKey.PublicKey()), "reinstalled")
	h.HostKeys = []string{PublicKey(other), PublicKey(s.HostKey)}
	_, err = d.Run(t.Context(), h, nil, "true")
	testkit.Must(t, err)
}

func TestHostKeyOfAnotherKind(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	h := s.host("m")
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	public, err := ssh.NewPublicKey(&other.PublicKey)
	testkit.Must(t, err)
	h.HostKeys = []string{string(ssh.MarshalAuthorizedKey(public))}
	_, err = dialer(t, Options{}, key).Run(t.Context(), h, nil, "true")
	if fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("kind %v: %v", fail.KindOf(err), err)
	}
}

func TestNoHostKey(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	h := s.host("m")
	h.HostKeys = nil
	_, err := dialer(t, Options{}, key).Run(t.Context(), h, nil, "true")
	if fail.KindOf(err) != fail.Refused || s.Logins.Load() != 0 {
		t.Errorf("error %v", err)
	}
	var seen string
	trusting := Options{TrustOnFirstUse: func(h Host, k ssh.PublicKey) error { seen = ssh.FingerprintSHA256(k); return nil }}
	_, err = dialer(t, trusting, key).Run(t.Context(), h, nil, "true")
	if err != nil || seen != ssh.FingerprintSHA256(s.HostKey.PublicKey()) {
		t.Errorf("saw %s: %v", seen, err)
	}
	distrusting := Options{TrustOnFirstUse: func(Host, ssh.PublicKey) error { return errors.New("not that one") }}
	_, err = dialer(t, distrusting, key).Run(t.Context(), h, nil, "true")
	if fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("error %v", err)
	}
}

func TestRefusedLogin(t *testing.T) {
	s := newServer(t, newKey(t).PublicKey())
	_, err := dialer(t, Options{}, newKey(t)).Run(t.Context(), s.host("m"), nil, "true")
	if fail.KindOf(err) != fail.Unauthorized {
		t.Errorf("kind %v", fail.KindOf(err))
	}
	has(t, err, "log in as root", "authorized_keys")
}

func TestNobodyThere(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	h := s.host("m")
	testkit.Must(t, s.Close())
	_, err := dialer(t, Options{}, key).Run(t.Context(), h, nil, "true")
	if fail.KindOf(err) != fail.Unreachable {
		t.Errorf("error %v", err)
	}
}

func TestSilentServer(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	s.Mute.Store(true)
	_, err := dialer(t, Options{ConnectTimeout: 100 * time.Millisecond}, key).Run(t.Context(), s.host("m"), nil, "true")
	if fail.KindOf(err) != fail.Unreachable {
		t.Errorf("error %v", err)
	}
	has(t, err, "no SSH greeting in time")
}

func TestConnectionDiesUnderACommand(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{}, key)
	_, err := d.Run(t.Context(), s.host("m"), nil, "true")
	testkit.Must(t, err)
	ended := runLong(t, d, s.host("m"))
	s.Cut()
	if err := <-ended; fail.KindOf(err) != fail.Unreachable {
		t.Errorf("error %v", err)
	}
	_, err = d.Run(t.Context(), s.host("m"), nil, "true") // dials again
	testkit.Must(t, err)
}

// runLong starts a command that would end long after the test, returns once it runs, and sends its outcome.
func runLong(t *testing.T, d *Dialer, h Host) <-chan error {
	t.Helper()
	ended, began := make(chan error, 1), filepath.Join(t.TempDir(), "began")
	go func() {
		_, err := d.Run(t.Context(), h, nil, "sh", "-c", `touch "$0"; exec sleep 300`, began)
		ended <- err
	}()
	testkit.Until(t, eventually, time.Millisecond, func() error { _, err := os.Stat(began); return err })
	return ended
}

// A request for a session while the connection ends must neither hang nor fail: the Dialer dials again.
func TestConnectionDiesBeforeACommand(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{}, key)
	for range 50 {
		_, err := d.Run(t.Context(), s.host("m"), nil, "true")
		testkit.Must(t, err)
		var wg sync.WaitGroup
		wg.Go(s.Cut)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		_, err = d.Run(ctx, s.host("m"), nil, "true")
		cancel()
		wg.Wait()
		if err != nil && fail.KindOf(err) != fail.Unreachable { // the cut may happen after the session
			t.Fatal(err)
		}
	}
}

func TestDeadMachineIsNoticed(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{KeepAlive: 20 * time.Millisecond, Dead: 200 * time.Millisecond}, key)
	_, err := d.Run(t.Context(), s.host("m"), nil, "true")
	testkit.Must(t, err)
	ended := runLong(t, d, s.host("m"))
	s.Mute.Store(true)
	if err = <-ended; fail.KindOf(err) != fail.Unreachable {
		t.Errorf("error %v", err)
	}
	has(t, err, "no longer answers")
}

func TestCancelEndsTheCommand(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{}, key)
	_, err := d.Run(t.Context(), s.host("m"), nil, "true")
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err = d.Run(ctx, s.host("m"), nil, "sleep", "300")
	if fail.KindOf(err) != fail.Interrupted {
		t.Errorf("error %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = d.Run(ctx, s.host("m"), nil, "sleep", "300")
	if fail.KindOf(err) != fail.NotReady {
		t.Errorf("error %v", err)
	}
	_, err = d.Run(t.Context(), s.host("m"), nil, "true")
	testkit.Must(t, err)
	if n := s.Logins.Load(); n != 1 {
		t.Errorf("cancelling cost the connection: %d logins", n)
	}
}

func TestJump(t *testing.T) {
	key := newKey(t)
	gone, mute, good, target := newServer(t, key.PublicKey()), newServer(t, key.PublicKey()), newServer(t, key.PublicKey()), newServer(t, key.PublicKey())
	h := target.host("target")
	h.Via = []Host{gone.host("gone"), mute.host("mute"), good.host("good")}
	testkit.Must(t, gone.Close())
	mute.Mute.Store(true)
	d := dialer(t, Options{KeepAlive: time.Hour}, key)
	_, err := d.Run(t.Context(), h, nil, "true")
	testkit.Must(t, err)
	if good.Logins.Load() != 1 || target.Logins.Load() != 1 {
		t.Error("the connection did not go through the jump host that answers")
	}
	target.Cut()
	start := time.Now()
	_, err = d.Run(t.Context(), h, nil, "true")
	testkit.Must(t, err)
	if took := time.Since(start); took > 5*time.Second || good.Logins.Load() != 1 {
		t.Errorf("the good jump host was not remembered: %s, %d logins", took, good.Logins.Load())
	}
	testkit.Must(t, good.Close())
	good.Cut()
	target.Cut()
	d2 := dialer(t, Options{ConnectTimeout: time.Second}, key)
	_, err = d2.Run(t.Context(), h, nil, "true")
	if fail.KindOf(err) != fail.Unreachable {
		t.Errorf("error %v", err)
	}
}

func TestJumpHostWithChangedKey(t *testing.T) {
	key := newKey(t)
	via, target := newServer(t, key.PublicKey()), newServer(t, key.PublicKey())
	h := target.host("target")
	v := via.host("via")
	v.HostKeys = []string{PublicKey(newKey(t))}
	h.Via = []Host{v}
	_, err := dialer(t, Options{}, key).Run(t.Context(), h, nil, "true")
	if fail.KindOf(err) != fail.Unauthorized || target.Logins.Load() != 0 {
		t.Errorf("error %v", err)
	}
	has(t, err, "via (")
}

func TestDialContext(t *testing.T) {
	key := newKey(t)
	s, inner := newServer(t, key.PublicKey()), newServer(t, key.PublicKey())
	d := dialer(t, Options{}, key)
	c, err := d.DialContext(t.Context(), s.host("m"), "tcp", inner.host("").addr())
	testkit.Must(t, err)
	greeting := make([]byte, 4)
	if _, err := io.ReadFull(c, greeting); err != nil || string(greeting) != "SSH-" {
		t.Errorf("read %q: %v", greeting, err)
	}
	testkit.Must(t, c.Close())
	_, err = d.DialContext(t.Context(), s.host("m"), "tcp", "127.0.0.1:1")
	if fail.KindOf(err) != fail.Unreachable {
		t.Errorf("error %v", err)
	}
	if n := s.Logins.Load(); n != 1 {
		t.Errorf("a refused connection cost the SSH connection: %d logins", n)
	}
}

func TestShell(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := dialer(t, Options{}, key)
	var out bytes.Buffer
	sizes := make(chan Size)
	in, typed := io.Pipe()
	go func() {
		sizes <- Size{120, 40}
		<-s.Sizes
		_, _ = io.WriteString(typed, "hello\n")
		_ = typed.Close()
	}()
	status, err := d.Shell(t.Context(), s.host("m"), Terminal{In: in, Out: &out, Err: io.Discard, TTY: true, Size: Size{80, 24}, Resize: sizes}, "")
	if err != nil || status != 7 || out.String() != "shell\ngot hello\n" {
		t.Errorf("status %d, output %q: %v", status, &out, err)
	}
	if pty, _ := s.PTY.Load().(string); !strings.Contains(pty, "xterm") {
		t.Errorf("pty-req %q", pty)
	}
}

func TestClosedDialer(t *testing.T) {
	key := newKey(t)
	s := newServer(t, key.PublicKey())
	d := NewDialer([]ssh.Signer{key}, Options{})
	_, err := d.Run(t.Context(), s.host("m"), nil, "true")
	testkit.Must(t, err)
	testkit.Must(t, d.Close())
	if _, err = d.Run(t.Context(), s.host("m"), nil, "true"); fail.KindOf(err) != fail.Interrupted {
		t.Errorf("error %v", err)
	}
}
