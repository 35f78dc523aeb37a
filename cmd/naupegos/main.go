// Command naupegos is the operator's command.
//
// BMCs make their certificates themselves, some with serial numbers below zero, which crypto/tls refuses before it lets anything else decide. There is no
// other way to let a pinned one through. A serial number proves nothing, so other TLS is no weaker; the agent keeps the default.
//
//go:debug x509negativeserial=1
package main

import (
	"context"
	"os"

	"github.com/naupegos/naupegos/internal/cli"
	"github.com/naupegos/naupegos/internal/kube"
)

func main() {
	kube.Quiet()
	os.Exit(cli.Main(context.Background(), &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Args[1:]))
}
