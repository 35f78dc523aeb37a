package runner

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/naupegos/naupegos/internal/provider/local"
	"github.com/naupegos/naupegos/internal/provider/local/localtest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestMain lets the test binary act as its machines' supervisor, as the runner's command does.
func TestMain(m *testing.M) {
	localtest.SuperviseIfAsked()
	if len(os.Args) == 5 && os.Args[1] == "runner" { // a runner that a test can kill
		o, err := besideOthers(os.Args[2], os.Args[3], os.Args[4])
		if err == nil {
			_, err = Start(context.Background(), o)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		select {}
	}
	os.Exit(m.Run())
}

// besideOthers returns options for a runner that serves one network of the bed in parallel with the bed's own runner.
func besideOthers(state, network, machines string) (Options, error) {
	var o Options
	if err := o.setDefaults(); err != nil {
		return o, err
	}
	o.MetadataURL = cmp.Or(os.Getenv("NAUPEGOS_TEST_METADATA"), o.MetadataURL)
	o.State, o.Networks, o.Machines.Root, o.Machines.Supervisor = state, []string{network}, machines, supervisor()
	return o, os.MkdirAll(state, 0o700)
}

// supervisor returns the command of the machines' supervisors: this test binary, in its network namespace.
func supervisor() []string { return testkit.InOwnNetwork(os.Args[0], local.SupervisorCommand) }
