package bed

import (
	"context"
	"net/http"
)

// serviceUsers are the users that services act as.
var serviceUsers = []string{"glance", "placement", "nova", "neutron", "cinder", "octavia"}

// entry is one service of the catalog.
type entry struct{ name, kind, url string }

func catalog(address string) []entry {
	base := "http://" + address
	return []entry{
		{"glance", "image", base + ":9292"}, {"placement", "placement", base + ":8778"}, {"nova", "compute", base + ":8774/v2.1"},
		{"neutron", "network", base + ":9696"}, {"cinderv3", "volumev3", base + ":8776/v3/%(project_id)s"}, {"octavia", "load-balancer", base + ":9876"},
	}
}

// seedIdentity makes roles, projects, users and the catalog; what is there already is left as it is.
func (b *Bed) seedIdentity(ctx context.Context) error {
	a, err := b.login(ctx)
	if err != nil {
		return err
	}
	k := b.keystone()
	roles := map[string]string{}
	for _, name := range []string{"admin", "member", "reader", "service", "load-balancer_member"} {
		if roles[name], err = a.ensure(ctx, k+"/roles", "roles", "role", object{"name": name}); err != nil {
			return err
		}
	}
	service, err := a.ensure(ctx, k+"/projects", "projects", "project", object{"name": "service", "domain_id": "default"})
	if err != nil {
		return err
	}
	project, err := a.ensure(ctx, k+"/projects", "projects", "project", object{"name": Cloud, "domain_id": "default"})
	if err != nil {
		return err
	}
	grant := func(user, password, project string, names ...string) error {
		id, err := a.ensure(ctx, k+"/users", "users", "user", object{"name": user, "password": password, "domain_id": "default"})
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, err := a.call(ctx, http.MethodPut, k+"/projects/"+project+"/users/"+id+"/roles/"+roles[name], nil, nil); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range serviceUsers {
		if err := grant(name, b.secrets.Service, service, "admin", "service"); err != nil {
			return err
		}
	}
	if err := grant(Cloud, b.secrets.User, project, "member", "load-balancer_member"); err != nil {
		return err
	}
	for _, e := range catalog(b.o.Address) {
		if err := a.endpoint(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// endpoint puts a service into the catalog.
func (a *admin) endpoint(ctx context.Context, e entry) error {
	k := a.b.keystone()
	id, err := a.ensure(ctx, k+"/services", "services", "service", object{"name": e.name, "type": e.kind})
	if err != nil {
		return err
	}
	have, err := a.list(ctx, k+"/endpoints?service_id="+id, "endpoints")
	if err != nil {
		return err
	}
	known := map[string]bool{}
	for _, o := range have {
		known[o.text("interface")] = true
	}
	for _, i := range []string{"public", "internal", "admin"} {
		if known[i] {
			continue
		}
		body := object{"endpoint": object{"service_id": id, "url": e.url, "interface": i, "region_id": region}}
		if _, err := a.call(ctx, http.MethodPost, k+"/endpoints", body, nil); err != nil {
			return err
		}
	}
	return nil
}
