package local

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// TestMain lets the test binary be its own supervisor, as the naupegos command is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == SupervisorCommand {
		if err := Supervise(context.Background(), os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
