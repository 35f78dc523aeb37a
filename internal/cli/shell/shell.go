// Package shell holds the verbs that log in to a cluster's machines: ssh, ssh-config, logs, and support, which collects an archive.
//
// It makes no plans and changes no cluster.
package shell

import (
	"context"
	"io"

	"github.com/naupegos/naupegos/internal/client"
	"github.com/naupegos/naupegos/internal/operate"
)

// Host holds the parts of the operator's command that these verbs need.
type Host struct {
	In       io.Reader
	Out, Err io.Writer
	Color    func(io.Writer) bool
	Server   func() (*client.Client, error) // for the server that the user named; nil if none
	Exit     func(status int) error         // ends the command with the status of a remote one
	Version  string

	// On runs do on a cluster of the store, with its bundle if whole is set and the bundle is on this host.
	On func(ctx context.Context, cluster string, whole bool, do func(*operate.Session) error) error
	// Noted performs an action that uses a cluster's keys, and notes it in the store's audit before and after.
	Noted func(ctx context.Context, s *operate.Session, action string, do func() error) error
}
