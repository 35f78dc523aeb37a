// Package quota reads a project's quotas and usage in a cloud, and compares them with a demand. It must not know about clusters: its caller
// counts the demand.
package quota
