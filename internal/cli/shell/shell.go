// Package shell holds the verbs that log in to a cluster's machines: ssh, ssh-config, logs, and support, which collects an archive.
//
// It plans and changes nothing.
package shell

import (
	"context"
	"io"

	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/operate"
)

// Host is what the operator's command lends these verbs.
type Host struct {
	In       io.Reader
	Out, Err io.Writer
	Color    func(io.Writer) bool
	Server   func() (*client.Client, error) // of the server that is named; nil: none is
	Exit     func(status int) error         // ends the command with the status of a remote one
	Version  string

	// On does something with a cluster that the store knows; whole: with its bundle, if that is on this host.
	On func(ctx context.Context, cluster string, whole bool, do func(*operate.Session) error) error
}
