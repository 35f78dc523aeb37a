package cli

import (
	"github.com/spf13/cobra"

	"github.com/naupegos/naupegos/internal/provider/local"
)

// newLocalMachineCmd is the hidden command under which a local machine lives on after the verb that started it.
func newLocalMachineCmd() *cobra.Command {
	return &cobra.Command{
		Use: local.SupervisorCommand + " DIR", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Run one local machine (started by naupegos itself)",
		RunE:  func(cmd *cobra.Command, args []string) error { return local.Supervise(cmd.Context(), args[0]) },
	}
}
