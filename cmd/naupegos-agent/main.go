// Command naupegos-agent makes the machine that it runs on match a configuration. It also runs a few small services.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/naupegos/naupegos/internal/agent"
	"github.com/naupegos/naupegos/internal/fail"
)

func main() {
	early()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	c := &command{in: os.Stdin, out: os.Stdout, err: os.Stderr, agent: agent.New(agent.Options{Runner: agent.Exec{}})}
	err := c.dispatch(ctx, os.Args[1:])
	stop()
	os.Exit(c.report(err))
}

// command is one call of the agent.
type command struct {
	in       io.Reader
	out, err io.Writer
	agent    *agent.Agent
}

// failure is the form of errors for the caller: one line of JSON on standard error.
type failure struct {
	Kind  string `json:"kind"` // as fail.Kind prints it
	What  string `json:"what"` // what was attempted, and the cause
	Where string `json:"where,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

// report writes err for the caller and returns the exit status of its kind.
func (c *command) report(err error) int {
	if err == nil || errors.Is(err, errHelp) {
		return 0
	}
	kind := fail.KindOf(err)
	f := failure{Kind: kind.String(), What: err.Error()}
	var e *fail.Error
	if errors.As(err, &e) {
		f.Where, f.Hint = e.Where, e.Hint
		f.What = (&fail.Error{What: e.What, Err: e.Err}).Error()
	}
	// An error here means that standard error is closed. The caller still gets the exit status.
	_ = json.NewEncoder(c.err).Encode(f)
	return kind.ExitCode()
}

// answer writes v as JSON.
func (c *command) answer(v any) error {
	enc := json.NewEncoder(c.out)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fail.Wrap(fail.Internal, err, "write the answer")
	}
	return nil
}

func (c *command) println(a ...any) error {
	_, err := fmt.Fprintln(c.out, a...)
	return err
}
