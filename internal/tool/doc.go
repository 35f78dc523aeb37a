// Package tool runs the host's programs under a context, and adds their standard error to errors. It does not know what the programs are for.
package tool
