// Package remote talks to machines over SSH: commands, connections through them, the agent, and an interactive shell.
//
// It pins host keys, keeps and shares connections, and uses the first jump host that answers. It is the only package that knows SSH; it knows nothing
// of clusters or of programs on a machine other than the agent.
package remote
