package local

import (
	"os"
	"strings"
	"testing"
)

func TestConsoleIsBounded(t *testing.T) {
	dir := t.TempDir()
	c, err := openConsole(consoleFile(dir), 1000)
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if _, err := c.Write([]byte("\x1b[0;32m  OK  \x1b[0m line " + strings.Repeat("x", 60) + "\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write([]byte("the last line\n")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{consoleFile(dir), consoleFile(dir) + ".1"} {
		if info, err := os.Stat(f); err != nil || info.Size() > 1000 {
			t.Errorf("%v %v", info, err)
		}
	}
	if tail := consoleTail(dir, 1); tail != "the last line" {
		t.Errorf("tail %q", tail)
	}
	if tail := consoleTail(dir, 2); strings.ContainsAny(tail, "\x1b\r") {
		t.Errorf("tail %q has escapes", tail)
	}
}
