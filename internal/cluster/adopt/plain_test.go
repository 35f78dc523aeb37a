package adopt

import (
	"bytes"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// TestForeignTexts: no text of a foreign cluster reaches a terminal as a command, or the document below the comments.
func TestForeignTexts(t *testing.T) {
	const evil = "x\x1b]0;owned\a\nspec: {provider: {local: {}}}\r\u202e"
	d := &Draft{Document: []byte("kind: Cluster\n")}
	for _, kind := range []Kind{Stays, Changes, Lost, Blocks} {
		d.Gaps = append(d.Gaps, Gap{Kind: kind, Where: evil, What: evil, Details: []string{evil, evil}, Restarts: evil, Do: evil}, Gap{Kind: kind, Where: evil, What: evil})
	}
	var b bytes.Buffer
	testkit.Must(t, d.Write(&b))
	for _, text := range append(d.Lost(), b.String()) {
		if strings.ContainsAny(text, "\x1b\a\r\u202e") {
			t.Errorf("%q", text)
		}
	}
	for line := range strings.Lines(b.String()) {
		if !strings.HasPrefix(line, "#") && line != "kind: Cluster\n" {
			t.Errorf("outside of the comments: %q", line)
		}
	}
}
