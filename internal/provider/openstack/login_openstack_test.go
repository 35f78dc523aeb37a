//go:build openstack

package openstack

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
	"github.com/naupegos/naupegos/internal/provider/openstack/settings"
	"github.com/naupegos/naupegos/internal/testkit"
	"github.com/naupegos/naupegos/test/openstack/bed"
)

// TestLoginShapes logs in to the real Keystone with each shape of settings that people write, and is in the same project each time.
func TestLoginShapes(t *testing.T) {
	useCloud(t)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	base, err := cloud.ReadLogin(bed.Cloud, "")
	testkit.Must(t, err)
	s := base.Settings
	c, err := cloud.Connect(ctx, base, cloud.Calls{})
	testkit.Must(t, err)
	me, err := c.WhoAmI()
	testkit.Must(t, err)
	name := fmt.Sprintf("t4-login-%d", time.Now().UnixNano())
	made, err := applicationcredentials.Create(ctx, c.Identity, me.User.ID, applicationcredentials.CreateOpts{Name: name}).Extract()
	testkit.Must(t, err)
	defer func() {
		testkit.Must(t, applicationcredentials.Delete(ctx, c.Identity, me.User.ID, made.ID).ExtractErr())
	}()

	url := strings.TrimSuffix(s.AuthURL, "/v3")
	user := fmt.Sprintf("username: %q, password: %q", s.Username, s.Password)
	domains := fmt.Sprintf("user_domain_id: %q, user_domain_name: %q, project_domain_id: %q, project_domain_name: %q",
		s.UserDomain.ID, s.UserDomain.Name, s.ProjectDomain.ID, s.ProjectDomain.Name)
	project := fmt.Sprintf("project_name: %q", me.Project.Name)
	whole := fmt.Sprintf("auth_url: %q, %s, %s, %s", url, user, domains, project)
	region := fmt.Sprintf("region_name: %q, ", s.Region)
	app := fmt.Sprintf("auth_url: %q, application_credential_secret: %q, ", url, made.Secret)
	for shape, files := range map[string]map[string]string{
		"no version":                {"clouds.yaml": "clouds: {x: {" + region + "auth: {" + whole + "}}}"},
		"version 2 in the address":  {"clouds.yaml": "clouds: {x: {" + region + "auth: {" + strings.Replace(whole, url, url+"/v2.0", 1) + "}}}"},
		"address of tokens":         {"clouds.yaml": "clouds: {x: {" + region + "auth: {" + strings.Replace(whole, url, url+"/v3/auth/tokens", 1) + "}}}"},
		"IDs":                       {"clouds.yaml": fmt.Sprintf("clouds: {x: {%sauth: {auth_url: %q, user_id: %q, password: %q, project_id: %q}}}", region, url, me.User.ID, s.Password, me.Project.ID)},
		"secure.yaml":               {"clouds.yaml": "clouds: {x: {" + region + "auth: {" + strings.Replace(whole, user, fmt.Sprintf("username: %q", s.Username), 1) + "}}}", "secure.yaml": fmt.Sprintf("clouds: {x: {auth: {password: %q}}}", s.Password)},
		"profile":                   {"clouds.yaml": fmt.Sprintf("clouds: {x: {profile: acme, %sauth: {%s, %s, %s}}}", region, user, domains, project), "clouds-public.yaml": fmt.Sprintf("public-clouds: {acme: {auth: {auth_url: %q}}}", url)},
		"merge key":                 {"clouds.yaml": "b: &b {" + whole + "}\nclouds: {x: {" + region + "auth: {<<: *b}}}"},
		"regions with values":       {"clouds.yaml": fmt.Sprintf("clouds: {x: {regions: [{name: %q, values: {auth: {%s}}}]}}", s.Region, whole)},
		"application credential":    {"clouds.yaml": fmt.Sprintf("clouds: {x: {%sauth_type: v3applicationcredential, auth: {%sapplication_credential_id: %q, %s}}}", region, app, made.ID, project)},
		"its name, and the user":    {"clouds.yaml": fmt.Sprintf("clouds: {x: {%sauth: {%sapplication_credential_name: %q, user_id: %q}}}", region, app, name, me.User.ID)},
		"token":                     {"clouds.yaml": fmt.Sprintf("clouds: {x: {%sauth_type: v3token, auth: {auth_url: %q, token: %q, project_id: %q}}}", region, url, c.Client.Token(), me.Project.ID)},
		"token as it is":            {"clouds.yaml": fmt.Sprintf("clouds: {x: {%sauth: {auth_url: %q, token: %q}}}", region, url, c.Client.Token())},
		"OS_ variables, no version": nil,
	} {
		t.Run(shape, func(t *testing.T) {
			env := map[string]string{}
			if files == nil {
				env = map[string]string{
					"OS_AUTH_URL": url, "OS_USERNAME": s.Username, "OS_PASSWORD": s.Password, "OS_PROJECT_NAME": me.Project.Name, "OS_REGION_NAME": s.Region,
					"OS_USER_DOMAIN_ID": s.UserDomain.ID, "OS_USER_DOMAIN_NAME": s.UserDomain.Name,
					"OS_PROJECT_DOMAIN_ID": s.ProjectDomain.ID, "OS_PROJECT_DOMAIN_NAME": s.ProjectDomain.Name,
				}
			}
			named := ""
			if files != nil {
				named = "x"
			}
			l, err := cloud.LoginFrom(settings.Source{
				Getenv: func(k string) string { return env[k] }, Home: func() (string, error) { return "/nowhere", nil },
				ReadFile: func(p string) ([]byte, error) {
					if text, ok := files[p]; ok {
						return []byte(text), nil
					}
					return nil, &os.PathError{Op: "open", Path: p, Err: os.ErrNotExist}
				},
			}, named, "")
			testkit.Must(t, err)
			got, err := cloud.Connect(ctx, l, cloud.Calls{})
			testkit.Must(t, err)
			who, err := got.WhoAmI()
			testkit.Must(t, err)
			if who.Project.ID != me.Project.ID || who.User.ID != me.User.ID {
				t.Errorf("it is user %s in project %s", who.User.ID, who.Project.ID)
			}
		})
	}
}
