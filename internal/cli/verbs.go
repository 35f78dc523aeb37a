package cli

import "github.com/spf13/cobra"

// addVerbs hangs every verb on the root, in the order in which a user meets them.
func addVerbs(root *cobra.Command, a *App) {
	root.AddCommand(
		newDoctorCmd(a), newInitCmd(a), newValidateCmd(a), newExplainCmd(a), newSchemaCmd(a), newDocumentCmd(a),
		newPlanCmd(a), newApplyCmd(a), newStatusCmd(a), newTestCmd(a), newKubectlCmd(a), newKubeconfigCmd(a),
		newNodeCmd(a), newMachineCmd(a), newSSHCmd(a), newSSHConfigCmd(a), newCertsCmd(a), newHistoryCmd(a), newLogsCmd(a), newHandoverCmd(a), newDestroyCmd(a),
		newBundleCmd(a), newImageCmd(a), newStoreCmd(a),
		newVersionCmd(a), newLocalMachineCmd(),
	)
	root.SetHelpCommand(helpCommand(root))
	suggestForOtherWords(root)
	checkArguments(root)
	completeNames(root, a)
	completeValues(root)
}
