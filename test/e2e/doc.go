// Package e2e proves whole clusters: the real command, real machines on this host, real servers, and bad luck.
//
// Everything lies in tests with the build tag e2e; run them as root: go test -tags e2e ./test/e2e -timeout 60m -v.
// They may know the command's words and exit codes, and look at the host; they change nothing but through the command or
// as misfortune would.
package e2e
