package engine

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestRemoteNeedsTLS: a remote host is refused unless the connection verifies it; how an address names the host, or the mode, makes no difference.
func TestRemoteNeedsTLS(t *testing.T) {
	const pass, refuse, invalid = "", "refused", "invalid"
	for _, c := range []struct{ address, env, want string }{
		{"postgres://ann@db.example.com/x", "", refuse},
		{"postgresql://ann@db.example.com:6000/x", "", refuse},
		{"postgres://ann@192.0.2.1/x", "", refuse},
		{"postgres://ann@[2001:db8::1]/x", "", refuse},
		{"postgres://ann@db.example.com/x?sslmode=disable", "", refuse},
		{"postgres://ann@db.example.com/x?sslmode=allow", "", refuse},
		{"postgres://ann@db.example.com/x?sslmode=prefer", "", refuse},
		{"postgres://ann@db.example.com/x?sslmode=require", "", refuse},
		{"postgres://ann@db.example.com/x?sslmode=verify-ca", "", refuse},
		{"postgres://ann@db.example.com/x?sslmode=verify-full", "", pass},
		{"postgres://ann@db.example.com/x", "verify-full", pass},
		{"postgres://ann@db.example.com/x?sslmode=prefer", "verify-full", refuse},
		{"postgres://ann@localhost,db.example.com/x", "", refuse},
		{"postgres://ann@db.example.com,localhost/x", "", refuse},
		{"postgres://ann@/x?host=db.example.com", "", refuse},
		{"postgres://ann@localhost.example.com/x", "", refuse},
		{"postgres://ann@127.0.0.1/x", "", pass},
		{"postgres://ann@127.3.2.1/x?sslmode=disable", "", pass},
		{"postgres://ann@[::1]/x", "", pass},
		{"postgres://ann@localhost/x", "", pass},
		{"postgres://ann@/x?host=/run/postgresql", "", pass},
		{"postgres://ann@db.example.com/x?naupegos_tls=unverified", "", pass},
		{"postgres://ann@db.example.com/x?sslmode=require&naupegos_tls=unverified&application_name=a", "", pass},
		{"postgres://ann@db.example.com/x?naupegos_tls=yes", "", invalid},
		{"postgres://ann@db.example.com/x?naupegos_tls", "", invalid},
	} {
		t.Run(c.address+" "+c.env, func(t *testing.T) {
			t.Setenv("PGSSLMODE", c.env)
			cfg, err := parsePostgres(c.address)
			switch c.want {
			case refuse:
				testkit.Fails(t, err, fail.Refused, "sslmode=verify-full", "naupegos_tls=unverified")
			case invalid:
				testkit.Fails(t, err, fail.Invalid, "naupegos_tls")
			default:
				testkit.Must(t, err)
				for name := range cfg.RuntimeParams {
					if strings.HasPrefix(name, "naupegos_") {
						t.Errorf("the server gets %s", name)
					}
				}
			}
		})
	}
}
