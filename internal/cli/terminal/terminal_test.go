package terminal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestPassphrase types passphrases, which are not echoed, twice for a new one.
func TestPassphrase(t *testing.T) {
	for typed, want := range map[string]string{"horse\nhorse\n": "", "horse\ncow\n": "differ", "\n": "is empty"} {
		user, program := testkit.Terminal(t)
		if _, err := user.WriteString(typed); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		got, err := Passphrase(program, &said, "", true)
		if want == "" && (err != nil || got != "horse") || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %q, %v", typed, got, err)
		}
		if strings.Contains(said.String(), "horse") {
			t.Errorf("it was shown: %q", said.String())
		}
	}
	_, err := Passphrase(&bytes.Buffer{}, &bytes.Buffer{}, "", false)
	if fail.KindOf(err) != fail.Refused {
		t.Errorf("without a terminal: %v", err)
	}
}
