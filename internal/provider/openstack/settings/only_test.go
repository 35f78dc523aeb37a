package settings

import (
	"encoding/pem"
	"io/fs"
	"net/http/httptest"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// TestOnlyCloud: the only cloud of the files needs no name, for the login and for its certificates alike; variables go before it.
func TestOnlyCloud(t *testing.T) {
	const one = "clouds: {mine: {auth: {auth_url: 'https://keystone.example/v3', username: anna, password: x, project_id: p}, cacert: /ca.pem}}"
	s := httptest.NewTLSServer(nil)
	s.Close()
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	source := func(clouds, secure string, env map[string]string) Source {
		return Source{
			Getenv: func(name string) string { return env[name] },
			ReadFile: func(path string) ([]byte, error) {
				switch {
				case path == "/home/.config/openstack/clouds.yaml" && clouds != "":
					return []byte(clouds), nil
				case path == "/home/.config/openstack/secure.yaml" && secure != "":
					return []byte(secure), nil
				case path == "/ca.pem":
					return authority, nil
				}
				return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
			},
			Home: func() (string, error) { return "/home", nil },
		}
	}
	for name, src := range map[string]Source{
		"one": source(one, "", nil), "one with its secret": source(one, "clouds: {mine: {auth: {password: y}}}", nil),
	} {
		s := testkit.Value(Read(src, "", ""))(t)
		if s.Username != "anna" || s.Source != `cloud "mine" of /home/.config/openstack/clouds.yaml` {
			t.Errorf("%s: %s", name, s.Source)
		}
		if trust := testkit.Value(Trust(src, "", ""))(t); len(trust.CACert) == 0 || string(trust.CACert) != string(s.CACert) {
			t.Errorf("%s: the certificates are not the login's", name)
		}
	}
	for name, src := range map[string]Source{
		"none": source("", "", nil), "no clouds": source("clouds: {}", "", nil), "two": source(one+"\n", "clouds: {other: {auth: {password: y}}}", nil),
	} {
		_, err := Read(src, "", "")
		testkit.Fails(t, err, fail.Invalid, "no cloud is named")
		if trust, err := Trust(src, "", ""); err != nil || len(trust.CACert) > 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	named := testkit.Value(Read(source(one, "", map[string]string{"OS_AUTH_URL": "https://other.example/v3", "OS_USERNAME": "ben", "OS_PASSWORD": "z", "OS_PROJECT_ID": "p", "OS_USER_DOMAIN_ID": "default"}), "", ""))(t)
	if named.Username != "ben" {
		t.Errorf("%s goes before the variables", named.Source)
	}
}
