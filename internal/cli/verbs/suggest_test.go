package verbs_test

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/cli"
	"github.com/naupegos/naupegos/internal/cli/verbs"
)

// TestElsewhere: what words of other tools lead to is a command, the words themselves are none, and their groups are there.
func TestElsewhere(t *testing.T) {
	root := cli.New(&cli.App{})
	for word, path := range verbs.Elsewhere() {
		if c, rest, err := root.Find(strings.Fields(path)); err != nil || len(rest) > 0 || verbs.Path(c) != path {
			t.Errorf("%s leads to %s, which is no command", word, path)
		}
		words := strings.Fields(word)
		group, rest, err := root.Find(words[:len(words)-1])
		if len(words) > 1 && (err != nil || len(rest) > 0 || !group.HasSubCommands()) {
			t.Errorf("%s: %s is no group of commands", word, words[0])
		}
		if err := verbs.Misspelt(root, words); err == nil || !strings.Contains(err.Error(), "did you mean naupegos "+path+"?") {
			t.Errorf("%s: %v", word, err)
		}
	}
}
