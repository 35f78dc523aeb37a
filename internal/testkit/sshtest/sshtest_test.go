package sshtest

import (
	"fmt"
	"testing"
)

func TestLogin(t *testing.T) {
	key := NewKey(t)
	s := NewServer(t, key.PublicKey())
	at := fmt.Sprintf("127.0.0.1:%d", s.Port())
	l := Login{Key: key, HostKey: s.HostKey.PublicKey()}
	if out, err := l.Run(at, "echo one >&2"); err != nil || out != "one" {
		t.Errorf("%q %v", out, err)
	}
	if out, err := l.Run(at, "echo no; exit 3"); err == nil || out != "no" {
		t.Errorf("a command that fails: %q %v", out, err)
	}
	for name, wrong := range map[string]Login{
		"another host key": {Key: key, HostKey: NewKey(t).PublicKey()},
		"another user":     {Key: NewKey(t)},
	} {
		if _, err := wrong.Run(at, "true"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
