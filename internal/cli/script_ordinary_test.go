package cli

import (
	"os"
	"slices"

	"github.com/rogpeppe/go-internal/testscript"
)

// asOrdinary is exits for a user other than root. It runs the command in a user namespace where root's files belong to another user.
func asOrdinary(ts *testscript.TestScript, neg bool, args []string) {
	if os.Geteuid() == 0 && len(args) > 1 {
		args = slices.Insert(args, 1, "unshare", "--user", "--map-user=1000")
	}
	exits(ts, neg, args)
}
