// Package localtest has what tests with local machines of their own need.
//
// It is for tests only and knows nothing but the local provider.
package localtest

import (
	"context"
	"fmt"
	"os"

	"github.com/naupegos/naupegos/internal/provider/local"
)

// SuperviseIfAsked ends the test binary as a machine's supervisor where it was started as one (local.SupervisorCommand and the machine's
// directory). For the beginning of TestMain.
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
