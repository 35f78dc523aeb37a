package forward

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/store"
)

// Priorities of RFC 5424: the facility "log audit", and the severity of an entry.
const (
	facility = 13 * 8
	warning  = 4
	notice   = 5
)

// syslog sends messages of RFC 5424: over TCP and TLS with octet counting (RFC 6587, RFC 5425), over UDP with one message per datagram.
type syslog struct {
	network, address string
	tls              *tls.Config // nil: plain text
	host             string
}

func newSyslog(u *url.URL) (*syslog, error) {
	y := &syslog{network: "tcp", address: u.Host, host: "-"}
	port := "601"
	switch transport := u.Query().Get("transport"); {
	case u.Scheme == "syslogs" && transport != "", transport != "" && transport != "tcp" && transport != "udp":
		return nil, fail.New(fail.Invalid, "--audit-to: %s does not support the transport %q", u.Scheme, transport).Do("remove it, or write syslog://HOST:PORT?transport=udp")
	case u.Scheme == "syslogs":
		y.tls, port = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}, "6514"
	case transport == "udp":
		y.network, port = "udp", "514"
	}
	if u.Hostname() == "" || strings.Trim(u.Path, "/") != "" {
		return nil, fail.New(fail.Invalid, "--audit-to %s names no host", u.Scheme).Do("write %s://HOST:PORT", u.Scheme)
	}
	if u.Port() == "" {
		y.address = net.JoinHostPort(u.Hostname(), port)
	}
	if name, err := os.Hostname(); err == nil && name != "" {
		y.host = name
	}
	return y, nil
}

func (y *syslog) send(ctx context.Context, all []store.AuditEntry) (err error) {
	var conn net.Conn
	if y.tls != nil {
		conn, err = (&tls.Dialer{Config: y.tls}).DialContext(ctx, y.network, y.address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, y.network, y.address)
	}
	if err != nil {
		return fail.Wrap(fail.Unreachable, err, "connect to syslog").At(y.address)
	}
	defer func() {
		if e := conn.Close(); err == nil && e != nil {
			err = fail.Wrap(fail.Unreachable, e, "send to syslog").At(y.address)
		}
	}()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return fail.Wrap(fail.Unreachable, err, "send to syslog").At(y.address)
	}
	for i := range all {
		m := y.message(&all[i])
		if y.network == "tcp" {
			m = strconv.Itoa(len(m)) + " " + m
		}
		if _, err := conn.Write([]byte(m)); err != nil {
			return fail.Wrap(fail.Unreachable, err, "send to syslog").At(y.address)
		}
	}
	return nil
}

// quoting escapes a value of structured data.
var quoting = strings.NewReplacer(`\`, `\\`, `"`, `\"`, `]`, `\]`)

// message returns the RFC 5424 message of an entry. 32473 is the enterprise number for examples (RFC 5612).
func (y *syslog) message(e *store.AuditEntry) string {
	severity := notice
	if e.Outcome != "done" && e.Outcome != "begun" {
		severity = warning
	}
	var data strings.Builder
	for _, f := range fields(e) {
		fmt.Fprintf(&data, ` %s="%s"`, f[0], quoting.Replace(f[1]))
	}
	return fmt.Sprintf("<%d>1 %s %s naupegos %d audit [naupegos@32473%s] %s: %s: %s", facility+severity, e.At.UTC().Format("2006-01-02T15:04:05.000000Z07:00"), y.host, os.Getpid(), data.String(),
		e.Who, e.Action, e.Outcome)
}

// fields returns the non-empty fields of an entry.
func fields(e *store.AuditEntry) (all [][2]string) {
	for _, f := range [][2]string{{"seq", strconv.FormatInt(e.Seq, 10)}, {"who", e.Who}, {"via", e.Via}, {"session", e.Session}, {"from", e.From}, {"action", e.Action}, {"cluster", e.Cluster},
		{"outcome", e.Outcome}, {"hash", e.Hash}, {"signature", e.Signature}, {"time", e.At.UTC().Format(time.RFC3339Nano)}} {
		if f[1] != "" {
			all = append(all, f)
		}
	}
	if e.Count > 0 {
		all = append(all, [2]string{"count", strconv.Itoa(e.Count)})
	}
	return all
}
