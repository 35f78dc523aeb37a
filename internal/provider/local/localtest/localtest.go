// Package localtest helps tests that run their own local machines.
//
// It is for tests only and knows only the local provider.
package localtest

import (
	"context"
	"fmt"
	"os"

	"github.com/naupegos/naupegos/internal/provider/local"
)

// SuperviseIfAsked runs the test binary as a machine's supervisor, and then exits, if its arguments are local.SupervisorCommand and
// the machine's directory. Call it at the beginning of TestMain.
func SuperviseIfAsked() {
	if len(os.Args) != 3 || os.Args[1] != local.SupervisorCommand {
		return
	}
	if err := local.Supervise(context.Background(), os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}
