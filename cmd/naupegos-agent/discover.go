package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/naupegos/naupegos/internal/agent/discover"
	"github.com/naupegos/naupegos/internal/agent/host"
	"github.com/naupegos/naupegos/internal/fail"
)

// discover reports this machine's hardware to a server.
func (c *command) discover(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("discover", flag.ContinueOnError)
	server, authority, key, mac := f.String("server", "", ""), f.String("authority", "", ""), f.String("key", "", ""), f.String("mac", "", "")
	lldp, long := f.Duration("lldp", 35*time.Second, ""), f.Duration("for", time.Hour, "")
	clock := f.Bool("set-clock", false, "")
	if _, err := c.parse(f, args, 0); err != nil {
		return err
	}
	d, err := discover.Look(host.Root("/"), *mac)
	if err != nil {
		return err
	}
	heard, cancel := context.WithTimeout(ctx, *lldp)
	defer cancel()
	if d.LLDP.Data.Interfaces, err = discover.Listen(heard, d.Interfaces); err != nil {
		return err
	}
	d.LLDP.IsFile = len(d.LLDP.Data.Interfaces) > 0
	if *server == "" {
		return c.answer(d)
	}
	o := discover.Options{Server: *server, Say: func(text string) { fmt.Fprintln(c.err, text) }}
	if o.HTTP, err = clientOf(*authority); err != nil {
		return err
	}
	if *clock {
		o.Clock = setClock
	}
	own, err := discover.Key(*key)
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, *long)
	defer end()
	enrolled, err := discover.Enrol(ctx, d, own, o)
	if err != nil {
		return err
	}
	return c.answer(enrolled)
}

// clientOf returns a client that trusts the certificate in a file or, without one, the system's certificates.
func clientOf(authority string) (*http.Client, error) {
	c := &http.Client{Timeout: 30 * time.Second}
	if authority == "" {
		return c, nil
	}
	data, err := os.ReadFile(authority)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the server's authority")
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fail.New(fail.Invalid, "there is no certificate in the file").At(authority)
	}
	c.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	return c, nil
}

// clockMayDiffer is the tolerated difference between the machine's clock and the server's.
const clockMayDiffer = time.Minute

// setClock sets the machine's clock to the server's time if they differ. A clock that was never set would reject certificates as not yet valid.
func setClock(at time.Time) error {
	if diff := time.Since(at).Abs(); at.IsZero() || diff < clockMayDiffer {
		return nil
	}
	now := unix.NsecToTimespec(at.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
		return fail.Wrap(fail.Refused, err, "set the machine's clock")
	}
	return nil
}
