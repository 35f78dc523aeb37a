package cloud

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// noEnv takes all OS_* variables away.
func noEnv(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		if k, _, _ := strings.Cut(kv, "="); strings.HasPrefix(k, "OS_") {
			t.Setenv(k, "")
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
}

func TestLoginFromFile(t *testing.T) {
	noEnv(t)
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("clouds.yaml", `clouds:
  one:
    auth: {auth_url: "https://keystone.example/v3", username: anna, project_name: demo, user_domain_name: Users, project_domain_name: Projects}
    region_name: north
  app:
    auth_type: v3applicationcredential
    auth: {auth_url: "https://keystone.example/v3", application_credential_id: abc}
`)
	write("secure.yaml", `clouds:
  one: {auth: {password: s3cret}}
  app: {auth: {application_credential_secret: s3cret}}
`)
	t.Setenv("OS_CLIENT_CONFIG_FILE", filepath.Join(dir, "clouds.yaml"))
	l, err := ReadLogin("one", "south")
	if err != nil {
		t.Fatal(err)
	}
	o := l.Options
	if o.Username != "anna" || o.Password != "s3cret" || o.DomainName != "Users" || o.Scope == nil || o.Scope.ProjectName != "demo" ||
		o.Scope.DomainName != "Projects" || !o.AllowReauth || l.Where.Region != "south" {
		t.Error("the login differs from the files")
	}
	if !strings.Contains(l.Source, `cloud "one"`) || !strings.Contains(l.Source, "clouds.yaml") {
		t.Error(l.Source)
	}
	t.Setenv("OS_CLOUD", "app")
	if l, err = ReadLogin("", ""); err != nil || l.Options.ApplicationCredentialID != "abc" || l.Options.ApplicationCredentialSecret != "s3cret" {
		t.Errorf("the application credential differs from the files: %v", err)
	}
	_, err = ReadLogin("two", "")
	testkit.Fails(t, err, fail.Invalid, `"two" not found`, "spec.provider.openstack.cloud")
}

func TestLoginFromEnv(t *testing.T) {
	noEnv(t)
	_, err := ReadLogin("", "")
	testkit.Fails(t, err, fail.Invalid, "no cloud is named", "openrc")
	for k, v := range map[string]string{ // what Horizon's openrc sets
		"OS_AUTH_URL": "https://keystone.example/v3", "OS_USERNAME": "anna", "OS_PASSWORD": "s3cret", "OS_PROJECT_ID": "p1", "OS_PROJECT_NAME": "demo",
		"OS_USER_DOMAIN_NAME": "Users", "OS_PROJECT_DOMAIN_ID": "d1", "OS_REGION_NAME": "north", "OS_INTERFACE": "internal", "OS_INSECURE": "true",
	} {
		t.Setenv(k, v)
	}
	l, err := ReadLogin("", "")
	if err != nil {
		t.Fatal(err)
	}
	o := l.Options
	if o.Username != "anna" || o.DomainName != "Users" || o.Scope == nil || o.Scope.ProjectID != "p1" || l.Where.Region != "north" ||
		l.Where.Availability != "internal" || l.TLS == nil || !l.TLS.InsecureSkipVerify {
		t.Errorf("%+v %+v", o.Scope, l.Where)
	}
	t.Setenv("OS_PROJECT_ID", "")
	if l, err = ReadLogin("", ""); err != nil || l.Options.Scope.ProjectName != "demo" || l.Options.Scope.DomainID != "d1" || l.Options.DomainName != "Users" {
		t.Errorf("%+v %v", l.Options.Scope, err)
	}
	t.Setenv("OS_CACERT", filepath.Join(t.TempDir(), "missing"))
	_, err = ReadLogin("", "")
	testkit.Fails(t, err, fail.Invalid, "CA certificate", "OS_CACERT")
}

// TestWaysToLogIn by variables: each with the names of other OpenStack tools; errors name missing ones.
func TestWaysToLogIn(t *testing.T) {
	type vars map[string]string
	for _, c := range []struct {
		name    string
		set     vars
		is      func(o gophercloud.AuthOptions) bool
		missing string
	}{
		{"application credential", vars{"OS_APPLICATION_CREDENTIAL_ID": "a", "OS_APPLICATION_CREDENTIAL_SECRET": "s3cret", "OS_USERNAME": "anna", "OS_PROJECT_NAME": "demo"},
			func(o gophercloud.AuthOptions) bool {
				return o.ApplicationCredentialID == "a" && o.Username == "" && o.Scope == nil && o.AllowReauth
			}, ""},
		{"its name", vars{"OS_APPLICATION_CREDENTIAL_NAME": "n", "OS_APPLICATION_CREDENTIAL_SECRET": "s3cret", "OS_USERNAME": "anna", "OS_USER_DOMAIN_NAME": "Users"},
			func(o gophercloud.AuthOptions) bool {
				return o.ApplicationCredentialName == "n" && o.Username == "anna" && o.DomainName == "Users" && o.Scope == nil
			}, ""},
		{"without its secret", vars{"OS_APPLICATION_CREDENTIAL_ID": "a"}, nil, "OS_APPLICATION_CREDENTIAL_SECRET"},
		{"token", vars{"OS_TOKEN": "s3cret", "OS_PROJECT_ID": "p", "OS_USERNAME": "anna"},
			func(o gophercloud.AuthOptions) bool {
				return o.TokenID == "s3cret" && o.Username == "" && o.Scope.ProjectID == "p" && !o.AllowReauth
			}, ""},
		{"token left beside a password", vars{"OS_TOKEN": "s3cret", "OS_AUTH_TYPE": "password", "OS_USERNAME": "anna", "OS_PASSWORD": "word", "OS_PROJECT_ID": "p"},
			func(o gophercloud.AuthOptions) bool {
				return o.TokenID == "" && o.Username == "anna" && o.Password == "word" && o.Scope.ProjectID == "p" && o.AllowReauth
			}, ""},
		{"token left beside an application credential", vars{"OS_AUTH_TOKEN": "s3cret", "OS_APPLICATION_CREDENTIAL_ID": "a", "OS_APPLICATION_CREDENTIAL_SECRET": "word"},
			func(o gophercloud.AuthOptions) bool {
				return o.TokenID == "" && o.ApplicationCredentialID == "a" && o.AllowReauth
			}, ""},
		{"token by its type", vars{"OS_AUTH_TOKEN": "s3cret", "OS_AUTH_TYPE": "v3token", "OS_USERNAME": "anna", "OS_PASSWORD": "word", "OS_PROJECT_ID": "p"},
			func(o gophercloud.AuthOptions) bool {
				return o.TokenID == "s3cret" && o.Username == "" && o.Password == "" && o.Scope.ProjectID == "p" && !o.AllowReauth
			}, ""},
		{"no token", vars{"OS_AUTH_TYPE": "token", "OS_USERNAME": "anna", "OS_PASSWORD": "word"}, nil, "OS_TOKEN"},
		{"user's ID", vars{"OS_USER_ID": "u", "OS_PASSWORD": "s3cret", "OS_PROJECT_ID": "p", "OS_USER_DOMAIN_NAME": "Users"},
			func(o gophercloud.AuthOptions) bool {
				return o.UserID == "u" && o.DomainName == "" && o.Password == "s3cret"
			}, ""},
		{"no user", vars{"OS_PASSWORD": "s3cret"}, nil, "OS_USERNAME"},
		{"no password", vars{"OS_USERNAME": "anna"}, nil, "OS_PASSWORD"},
	} {
		t.Run(c.name, func(t *testing.T) {
			noEnv(t)
			t.Setenv("OS_AUTH_URL", "https://keystone.example/v3")
			t.Setenv("OS_ENDPOINT_TYPE", "internalURL")
			for k, v := range c.set {
				t.Setenv(k, v)
			}
			l, err := ReadLogin("", "")
			if c.missing != "" {
				testkit.Fails(t, err, fail.Invalid, c.missing+" is not set", "the OS_* variables")
				return
			}
			if err != nil || !c.is(l.Options) || l.Where.Availability != gophercloud.AvailabilityInternal {
				t.Errorf("%v; it logs in otherwise, or at %s", err, l.Where.Availability)
			}
		})
	}
}
