package engine

import (
	"crypto/tls"
	"net"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/naupegos/naupegos/internal/fail"
)

// unverifiedOption is the URL parameter that permits a connection to a remote host without verification. It is not passed to PostgreSQL.
const unverifiedOption = "naupegos_tls"

// unverifiedValue is the only value of unverifiedOption.
const unverifiedValue = "unverified"

// takeUnverified removes unverifiedOption from an address, and reports whether the address had it.
func takeUnverified(address string) (rest string, unverified bool, err error) {
	base, query, found := strings.Cut(address, "?")
	if !found {
		return address, false, nil
	}
	var keep []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		if name, e := url.QueryUnescape(key); e != nil || name != unverifiedOption {
			keep = append(keep, pair)
			continue
		}
		if value != unverifiedValue {
			return "", false, fail.New(fail.Invalid, "the store's address has a %s that is not %q", unverifiedOption, unverifiedValue).
				Do("remove it: without it, remote hosts need sslmode=verify-full")
		}
		unverified = true
	}
	if len(keep) == 0 {
		return base, unverified, nil
	}
	return base + "?" + strings.Join(keep, "&"), unverified, nil
}

// requireTLS refuses a remote host unless the connection verifies its certificate and name. libpq's default, sslmode=prefer, verifies nothing and falls
// back to plain text, so an attacker on the network could read the password and write to the store.
func requireTLS(cfg *pgx.ConnConfig) error {
	refuse := func(host string, t *tls.Config) error {
		how := "without TLS"
		if t != nil {
			how = "without verifying the host's certificate and name"
		}
		return fail.New(fail.Refused, "the store's database is on another host, and this address connects %s", how).At(host).
			Do("add ?sslmode=verify-full to the address (and sslrootcert=FILE for an authority of your own); %s=%s permits the unverified connection",
				unverifiedOption, unverifiedValue)
	}
	if !onThisHost(cfg.Host) && !verifies(cfg.TLSConfig) {
		return refuse(cfg.Host, cfg.TLSConfig)
	}
	for _, other := range cfg.Fallbacks {
		if !onThisHost(other.Host) && !verifies(other.TLSConfig) {
			return refuse(other.Host, other.TLSConfig)
		}
	}
	return nil
}

// verifies reports whether a connection checks both the chain and the name of the server's certificate, as sslmode=verify-full does. pgx sets
// InsecureSkipVerify for each weaker mode.
func verifies(t *tls.Config) bool { return t != nil && !t.InsecureSkipVerify && t.ServerName != "" }

// onThisHost reports whether a host is the local one: a socket's directory, a loopback address, or the name localhost.
func onThisHost(host string) bool {
	if strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}
