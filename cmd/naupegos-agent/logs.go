package main

import (
	"context"
	"encoding/json"
	"flag"

	agentlogs "github.com/naupegos/naupegos/internal/agent/logs"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/logs"
)

func (c *command) logs(ctx context.Context, args []string) error {
	ctx, cancel := c.untilHangup(ctx)
	defer cancel()
	words, err := c.parse(flag.NewFlagSet("logs", flag.ContinueOnError), args, 1)
	if err != nil {
		return err
	}
	var req logs.Request
	if err := json.Unmarshal([]byte(words[0]), &req); err != nil {
		return fail.Wrap(fail.Invalid, err, "read which logs are wanted")
	}
	return agentlogs.Reader{}.Send(ctx, req, c.out)
}
