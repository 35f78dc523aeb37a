package bmc

import (
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/registry/bmc/redfishtest"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestUsers: directory users are accepted, and the error for another user names its fault.
func TestUsers(t *testing.T) {
	for user, says := range map[string]string{
		"svc@corp.example": "", `CORP\svc`: "", "corp/svc": "", "Jane Doe": "", "#1?": "", "jürgen@corp.example": "", strings.Repeat("u", 200): "",
		"": "a user", "a\nb": "control characters", "a\x00": "control characters", "a\xff": "control characters", "a:b": "a colon",
	} {
		err := Access{Protocol: ProtocolRedfish, Address: "h", User: user, Password: []byte("p")}.Check()
		if says == "" {
			testkit.Must(t, err)
		} else {
			testkit.Fails(t, err, fail.Invalid, says)
		}
	}
	for _, address := range []string{"x@h", "h/x", "h?x", "h#x", "h x", "h\n", ""} {
		testkit.Fails(t, Access{Protocol: ProtocolRedfish, Address: address, User: "u", Password: []byte("p")}.Check(), fail.Invalid, "an address")
	}
	testkit.Must(t, Access{Address: "h", User: "svc@corp.example", Password: []byte("p")}.Check())
	testkit.Fails(t, Access{Address: "h", User: "seventeen@bytes.x", Password: []byte("p")}.Check(), fail.Invalid, "16 bytes", "redfish")
}

// TestDirectoryUser logs in as a directory user.
func TestDirectoryUser(t *testing.T) {
	const user = "svc@corp.example"
	s := redfishtest.Start(t, &computer{}, redfishtest.Options{User: user, Password: testkit.Secret})
	a := Access{Protocol: ProtocolRedfish, Address: s.Address(), User: user, Password: []byte(testkit.Secret), Fingerprint: s.Fingerprint(), UUID: uuid}
	testkit.Value(Controllers{}.Power(t.Context(), a, "status", AsUsual))(t)
}
