package local

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// images is the directory of the integration tests' prepared images, created on first use: unpacking takes as long as a machine's whole life.
var images string

// TestMain lets the test binary be its own supervisor, as the naupegos command is.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == SupervisorCommand {
		if err := Supervise(context.Background(), os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if err := os.RemoveAll(images); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
