package cloud

import (
	"encoding/pem"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/provider/openstack/settings"
)

// somePEM is the PEM of a certificate.
func somePEM(t *testing.T) string {
	t.Helper()
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}))
}

// TestCACert: the authorities are those of the file, of secure.yaml where it names others, and of $OS_CACERT before both.
func TestCACert(t *testing.T) {
	ca := somePEM(t)
	files := map[string]string{
		"/home/anna/ca.pem": ca, "other.pem": ca + "\n", "env.pem": "\n" + ca,
		"clouds.yaml": "clouds: {one: {cacert: ~/ca.pem}, two: {}, bad: {cacert: clouds.yaml}, none: {cacert: missing.pem},\n" +
			"  many: {cacert: missing.pem, regions: [{name: R1, values: {cacert: other.pem}}, R2, {name: R3, values: {cacert: env.pem}}]}}",
	}
	for _, c := range []struct{ cloud, env, secure, want, fault string }{
		{"one", "", "", ca, ""},
		{"two", "", "", "", ""},
		{"two", "", "clouds: {two: {cacert: other.pem}}", files["other.pem"], ""},
		{"one", "", "clouds: {one: {cacert: other.pem}}", files["other.pem"], ""},
		{"two", "env.pem", "clouds: {two: {cacert: other.pem}}", files["env.pem"], ""},
		{"", "env.pem", "", files["env.pem"], ""},
		{"many", "", "", files["other.pem"], ""},
		{"many@R3", "", "", files["env.pem"], ""},
		{"many@R2", "", "", "", "missing.pem"},
		{"many@R4", "", "", "", "no region R4"},
		{"bad", "", "", "", "clouds.yaml:1: clouds.bad.cacert: the file has no certificate in PEM"},
		{"none", "", "", "", "clouds.yaml:1: clouds.none.cacert: read the CA certificate: open missing.pem"},
		{"one", "missing.pem", "", "", "$OS_CACERT: read the CA certificate"},
	} {
		delete(files, "secure.yaml")
		if c.secure != "" {
			files["secure.yaml"] = c.secure
		}
		env := map[string]string{"OS_CACERT": c.env}
		if c.cloud == "" {
			env["OS_AUTH_URL"] = "https://keystone/v3"
		}
		name, region, _ := strings.Cut(c.cloud, "@")
		s, err := settings.Trust(sourceOf(files, env), name, region)
		got := s.CACert
		if c.fault != "" {
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || string(got) != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}
