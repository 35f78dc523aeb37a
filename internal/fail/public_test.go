package fail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestPublic: a public error names none of the host's paths, in whatever way it contains them, and keeps everything else.
func TestPublic(t *testing.T) {
	_, missing := os.Stat("/srv/naupegos/bin/naupegos-agent")
	_, program := exec.LookPath("/srv/naupegos/bin/renderer")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a file":             {Wrap(Invalid, missing, "find naupegos-agent").Do("it belongs beside /srv/naupegos/bin/naupegos; make build makes both"), "find naupegos-agent: stat " + Hidden + ": no such file or directory (it belongs beside " + Hidden + "; make build makes both)"},
		"a place":            {New(Refused, "is full").At("/var/lib/naupegos/server/backups/demo"), Hidden + ": is full"},
		"a program":          {Wrap(Internal, program, "render"), "render: exec: \"" + Hidden + "\": stat " + Hidden + ": no such file or directory"},
		"two files":          {Wrap(Internal, &os.LinkError{Op: "rename", Old: "/srv/a/b", New: "/srv/c/d e", Err: fs.ErrExist}, "keep it"), "keep it: rename " + Hidden + " " + Hidden + ": file already exists"},
		"one of several":     {errors.Join(New(Refused, "cp-1: no answer"), fmt.Errorf("and: %w", missing)), "cp-1: no answer\nand: stat " + Hidden + ": no such file or directory"},
		"a machine's path":   {New(Refused, "cp-1: /etc/kubernetes/pki is missing").At("cp-1"), "cp-1: cp-1: /etc/kubernetes/pki is missing"},
		"a field":            {New(Refused, "may not name files of the server").At("spec.pki"), "spec.pki: may not name files of the server"},
		"a directory of /":   {Wrap(Refused, &fs.PathError{Op: "open", Path: "/etc/naupegos", Err: fs.ErrPermission}, "read it").Do("look at /etc/hosts"), "read it: open " + Hidden + ": permission denied (look at /etc/hosts)"},
		"the root directory": {Wrap(Refused, &fs.PathError{Op: "open", Path: "/", Err: fs.ErrPermission}, "a/b"), "a/b: open /: permission denied"},
	} {
		got := Public(c.err)
		if got.Error() != c.want || strings.Contains(got.Error(), "/srv/") || KindOf(got) != KindOf(c.err) || !errors.Is(got, c.err) {
			t.Errorf("%s: %s (%s), want %s", name, got, KindOf(got), c.want)
		}
	}
	if Public(nil) != nil {
		t.Error("no error became one")
	}
}
