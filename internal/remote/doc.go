// Package remote talks to machines over SSH: commands, connections through them, the agent, and an interactive shell.
//
// Host keys are pinned, connections are kept and shared, and jump hosts are chosen by who answers. It is the only package
// that knows SSH; it knows nothing of clusters or of what runs on a machine other than the agent.
package remote
