package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/naupegos/naupegos/internal/agent/install"
	"github.com/naupegos/naupegos/internal/agent/keep"
)

// keep reports the installed system to the server and applies updates until it is stopped.
func (c *command) keep(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("keep", flag.ContinueOnError)
	dir, every := f.String("dir", install.StateDir, ""), f.Duration("every", time.Minute, "")
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	o, err := keep.Here(*dir, func(text string) { fmt.Fprintln(c.err, text) })
	if err != nil {
		return err
	}
	o.Every = *every
	return keep.Run(ctx, o)
}
