package openstack

import (
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

func consoleWith(keys ...string) string {
	return "[    1.0] booting\r\ncloud-init[300]: noise\r\n-----BEGIN SSH HOST KEY KEYS-----\r\n" + strings.Join(keys, " root@x\r\n") +
		" root@x\r\n-----END SSH HOST KEY KEYS-----\r\nlogin: "
}

// TestHostKeys: host keys are read from the console, cached by the server's ID, and not read again.
func TestHostKeys(t *testing.T) {
	useFake(t)
	doc := fakeDocument(t)
	doc.Spec.Provider.OpenStack.TrustOnFirstUse = false
	key := strings.TrimSpace(testKey)
	f := newFakeCloud()
	f.console = consoleWith(key)
	memory := &sessionKeys{}
	remember := func(o *Options) { o.HostKeys, o.Timeouts.Console = memory, time.Minute }
	p := fakeProvider(t, f, doc, remember)
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	m, err := p.Machine(t.Context(), "t3-life-cp-1")
	if err != nil || !slices.Equal(m.HostKeys, []string{key}) {
		t.Fatalf("%+v %v", m, err)
	}
	if !slices.Equal(memory.Get(m.ID), m.HostKeys) {
		t.Error("the keys are not remembered by the server's ID")
	}
	f.console = ""
	p = fakeProvider(t, f, doc, remember)
	inv, err := p.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if steps, err := p.Steps(t.Context(), wanted(doc), inv); err != nil || len(steps) > 0 {
		t.Errorf("%d steps, %v", len(steps), err)
	}
}

// TestConsole returns the end of the cloud's console log; an empty one is not an error.
func TestConsole(t *testing.T) {
	useFake(t)
	f, doc := newFakeCloud(), fakeDocument(t)
	f.console = "[ 1.0] booting\n[ 2.0] panic\n"
	p := fakeProvider(t, f, doc)
	if err := apply(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if text, err := p.Console("t3-life-cp-1", 13); err != nil || string(text) != "[ 2.0] panic\n" {
		t.Errorf("%q, %v", text, err)
	}
	if text, err := p.Console("t3-life-cp-9", 13); err != nil || text != nil {
		t.Errorf("a machine that is not there: %q, %v", text, err)
	}
	f.fault = func(int, string) fault0 { return fault0{status: 501, text: "not implemented by this hypervisor"} }
	if text, err := p.Console("t3-life-cp-1", 13); err != nil || text != nil {
		t.Errorf("a cloud without consoles: %q, %v", text, err)
	}
}

// TestNoHostKeys: the error for a machine whose console shows no keys has a remedy; with trust on first use, there is only a short wait.
func TestNoHostKeys(t *testing.T) {
	useFake(t)
	doc := fakeDocument(t)
	doc.Spec.Provider.OpenStack.TrustOnFirstUse = false
	f := newFakeCloud()
	f.console = "login: "
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "shows no SSH host keys", "trustOnFirstUse")
	f.fault = func(_ int, call string) fault0 {
		if strings.HasSuffix(call, "/action") {
			return fault0{status: 501, text: "not implemented by this hypervisor"}
		}
		return fault0{}
	}
	testkit.Fails(t, apply(t.Context(), fakeProvider(t, f, doc)), fail.Refused, "serves no console log", "not implemented by this hypervisor", "trustOnFirstUse")
	doc.Spec.Provider.OpenStack.TrustOnFirstUse = true
	if err := apply(t.Context(), fakeProvider(t, f, doc)); err != nil {
		t.Error(err)
	}
}

func TestConsoleKeys(t *testing.T) {
	key := strings.TrimSpace(testKey)
	old := strings.Replace(consoleWith(key), key, "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOldOldOldOldOldOldOldOldOldOldOldOldOldOldOldO", 1)
	for name, tc := range map[string]struct {
		log  string
		want []string
	}{
		"none":         {"login: ", nil},
		"cut off":      {strings.Split(consoleWith(key), "-----END")[0], nil},
		"one":          {consoleWith(key), []string{key}},
		"the last":     {old + consoleWith(key), []string{key}},
		"prefixed":     {strings.ReplaceAll(consoleWith(key), "ssh-ed25519", "[   12.3] ci-info: ssh-ed25519"), []string{key}},
		"written into": {strings.Replace(consoleWith(key), "AAAAC3Nza", "AAAA[ 3.1] usb C3Nza", 1), nil},
		"other kind":   {strings.ReplaceAll(consoleWith(key), "ssh-ed25519", "ssh-rsa"), nil},
	} {
		if got := consoleKeys(tc.log); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// FuzzConsoleKeys: programs on the machine write the console's log: the result is complete keys from the log, or none.
func FuzzConsoleKeys(f *testing.F) {
	key := strings.TrimSpace(testKey)
	f.Add(consoleWith(key))
	f.Add(consoleWith(key) + keysBegin)
	f.Add(keysEnd + keysBegin + key)
	f.Add(strings.Replace(consoleWith(key), "AAAAC3Nza", "AAAA[ 3.1] usb C3Nza", 1))
	f.Fuzz(func(t *testing.T, log string) {
		for _, k := range consoleKeys(log) {
			if _, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(k)); err != nil || len(options) > 0 || len(rest) > 0 || !strings.Contains(log, k) {
				t.Fatalf("%q is no key of the log: %v", k, err)
			}
		}
	})
}
