package cli

import (
	"os"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"
)

// asOrdinary runs a command as exits does, by a user other than root: in a user namespace that shows root's own files to another number.
func asOrdinary(ts *testscript.TestScript, neg bool, args []string) {
	if os.Geteuid() == 0 && len(args) > 1 {
		args = slices.Insert(args, 1, "unshare", "--user", "--map-user=1000")
	}
	exits(ts, neg, args)
}
