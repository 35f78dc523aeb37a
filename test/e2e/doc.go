// Package e2e tests whole clusters: the real command, real machines on this host, real servers, and misfortune.
//
// All tests have the build tag e2e; run them as root: go test -tags e2e ./test/e2e -timeout 60m -v. They may depend on the command's output and
// exit codes, and look at the host. They change things only through the command, or as misfortune would.
package e2e
