package hostnet

import (
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

func TestParseResolvConf(t *testing.T) {
	servers, search := parseResolvConf("# x\nnameserver 127.0.0.53\nnameserver 192.0.2.1\nnameserver ::1\nnameserver 192.0.2.2\nsearch a.example b.example\noptions edns0\n")
	testkit.Golden(t, "resolv.conf.golden", string(ResolvConf(servers, search)))
	if servers, _ := parseResolvConf("nameserver 127.0.0.1\n"); len(servers) != 0 {
		t.Error("a loopback resolver is of no use to machines")
	}
}
