// Command naupegos is the operator's command.
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
