package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"go.yaml.in/yaml/v3"
)

// cloudName is the name of the bench's project in its clouds.yaml.
const cloudName = "bench"

// project is an OpenStack project without limits that the bench creates and removes.
type project struct {
	admin    *session
	id, user string // IDs
	auth     credentials
	file     string // clouds.yaml
}

// newProject creates a project with one user, using the administrator's credentials. It writes the project's clouds.yaml into dir.
func newProject(ctx context.Context, adminFile, adminCloud, dir string) (_ *project, err error) {
	auth, err := readCloud(adminFile, adminCloud)
	if err != nil {
		return nil, err
	}
	admin, err := login(ctx, auth)
	if err != nil {
		return nil, err
	}
	p := &project{admin: admin, auth: auth, file: filepath.Join(dir, "clouds.yaml")}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.remove(context.WithoutCancel(ctx)))
		}
	}()
	name := "naupegos-bench-" + rand.Text()[:8]
	p.auth.Username, p.auth.Project, p.auth.Password = name, name, rand.Text()
	if p.id, err = p.make(ctx, "projects", "project", object{"name": name, "description": "made by make bench-openstack"}); err != nil {
		return nil, err
	}
	if p.user, err = p.make(ctx, "users", "user", object{"name": name, "password": p.auth.Password, "default_project_id": p.id}); err != nil {
		return nil, err
	}
	if err := p.grant(ctx, "member", "load-balancer_member"); err != nil {
		return nil, err
	}
	if err := p.unlimit(ctx); err != nil {
		return nil, err
	}
	return p, p.write()
}

func (p *project) make(ctx context.Context, kind, one string, what object) (string, error) {
	var answer map[string]object
	_, err := p.admin.call(ctx, http.MethodPost, p.admin.auth.AuthURL+"/"+kind, object{one: what}, &answer)
	return text(answer[one], "id"), err
}

func (p *project) grant(ctx context.Context, names ...string) error {
	roles, err := p.admin.list(ctx, "identity", "v3", "/roles", "roles")
	if err != nil {
		return err
	}
	for _, name := range names {
		id := ""
		for _, r := range roles {
			if text(r, "name") == name {
				id = text(r, "id")
			}
		}
		if id == "" {
			return fmt.Errorf("the cloud has no role %s", name)
		}
		if _, err := p.admin.call(ctx, http.MethodPut, fmt.Sprintf("%s/projects/%s/users/%s/roles/%s", p.admin.auth.AuthURL, p.id, p.user, id), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// quota is a set of limits of a project in one service.
type quota struct {
	service, version, path, key string
	names                       []string
}

var quotas = []quota{
	{"compute", "v2.1", "/os-quota-sets/", "quota_set", []string{"instances", "cores", "ram", "server_groups", "server_group_members", "key_pairs"}},
	{"block-storage", "v3", "/os-quota-sets/", "quota_set", []string{"volumes", "gigabytes"}},
	{"network", "v2.0", "/quotas/", "quota", []string{"network", "subnet", "router", "port", "floatingip", "security_group", "security_group_rule"}},
	{"load-balancer", "v2.0", "/lbaas/quotas/", "quota", []string{"load_balancer", "listener", "pool", "member", "health_monitor"}},
}

// unlimit removes all limits.
func (p *project) unlimit(ctx context.Context) error {
	for _, q := range quotas {
		base, err := p.admin.address(q.service, q.version)
		if err != nil {
			return err
		}
		limits := object{}
		for _, n := range q.names {
			limits[n] = -1
		}
		if _, err := p.admin.call(ctx, http.MethodPut, base+q.path+p.id, object{q.key: limits}, nil); err != nil {
			return fmt.Errorf("set quotas: %w", err)
		}
	}
	return nil
}

// write writes the clouds.yaml for both sides, readable only by its owner.
func (p *project) write() error {
	data, err := yaml.Marshal(object{"clouds": object{cloudName: object{"auth": p.auth, "region_name": p.auth.region, "identity_api_version": 3}}})
	if err != nil {
		return err
	}
	return os.WriteFile(p.file, data, 0o600)
}

// remove removes what newProject created. The project must be empty, because its content would be unreachable afterwards.
func (p *project) remove(ctx context.Context) error {
	var errs []error
	drop := func(url string) {
		if _, err := p.admin.call(ctx, http.MethodDelete, url, nil, nil); err != nil && !errors.Is(err, errGone) {
			errs = append(errs, err)
		}
	}
	if p.id != "" {
		for _, q := range quotas {
			if base, err := p.admin.address(q.service, q.version); err == nil {
				drop(base + q.path + p.id)
			}
		}
		if base, err := p.admin.address("network", "v2.0"); err == nil { // Neutron creates a default group for each project and does not remove it
			groups, err := p.admin.list(ctx, "network", "v2.0", "/security-groups?project_id="+p.id, "security_groups")
			errs = append(errs, err)
			for _, g := range groups {
				drop(base + "/security-groups/" + text(g, "id"))
			}
		}
		drop(p.admin.auth.AuthURL + "/projects/" + p.id)
	}
	if p.user != "" {
		drop(p.admin.auth.AuthURL + "/users/" + p.user)
	}
	return errors.Join(errs...)
}

// close removes the project if it is empty. Otherwise it returns an error that lists what a side left there, and keeps the project for
// inspection.
func (p *project) close(ctx context.Context) error {
	s, err := login(ctx, p.auth)
	if err != nil {
		return err
	}
	c, err := s.read(ctx)
	if err != nil {
		return err
	}
	if left := c.describe(); len(left) > 0 {
		return fmt.Errorf("project %s is not removed, for there is still in it: %s", p.auth.Project, left.kinds())
	}
	return p.remove(ctx)
}
