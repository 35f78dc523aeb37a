package verbs

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestTakeOneFile(t *testing.T) {
	for args, refused := range map[string]bool{"-f a": false, "-f a -f b": true, "--file=a -fb": true, "-f a --file a": true, "": false} {
		c := &cobra.Command{Use: "x", Run: func(*cobra.Command, []string) {}, SilenceUsage: true, SilenceErrors: true}
		c.SetErr(io.Discard)
		file := ""
		c.Flags().StringVarP(&file, "file", "f", "", "")
		TakeOneFile(c)
		c.SetArgs(strings.Fields(args))
		err := c.Execute()
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), "given twice") {
			t.Errorf("%q: %v", args, err)
		}
		if !refused && args != "" && file != "a" {
			t.Errorf("%q: the file is %q", args, file)
		}
	}
}

func TestAsksJSON(t *testing.T) {
	for args, want := range map[string]bool{
		"statsu -o json": true, "status --wath --output json": true, "x -ojson": true, "x --output=json": true, "x -o=json": true, "events --since yesterday -o json": true,
		"x -o yaml": false, "x": false, "x -o": false, "kubectl -- get pods -o json": false, "json": false,
	} {
		if AsksJSON(strings.Fields(args)) != want {
			t.Errorf("%q: want %v", args, want)
		}
	}
}

// TestParagraphs: the lines of a paragraph are joined; lists, examples and empty lines stay.
func TestParagraphs(t *testing.T) {
	got := wrap(paragraphs("One two three\nfour five six\n\n  1. a list\n     goes on\nseven\neight"), 30)
	want := "One two three four five six\n\n  1. a list\n     goes on\nseven eight"
	if got != want {
		t.Errorf("%q", got)
	}
}
