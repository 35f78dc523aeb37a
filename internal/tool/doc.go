// Package tool runs the host's programs: bounded by a context, with what they say on standard error in the error.
// It knows nothing of what the programs are for.
package tool
