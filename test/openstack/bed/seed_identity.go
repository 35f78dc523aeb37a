package bed

import (
	"context"
	"net/http"
)

// serviceUsers are the Keystone users of the services.
var serviceUsers = []string{"glance", "placement", "nova", "neutron", "cinder", "octavia", "designate"}

// entry is one service of the catalog.
type entry struct {
	Name, Kind string
	Port       int
	path       string
	TLS        int // its port in tlsRegion; 0: the region lacks it
}

// catalog lists the services of the regions.
var catalog = []entry{
	{"keystone", "identity", 5000, "/v3", 15000}, {"glance", "image", 9292, "", 19292}, {"placement", "placement", 8778, "", 18778},
	{"nova", "compute", 8774, "/v2.1", 18774}, {"neutron", "network", 9696, "", 19696}, {"cinderv3", "volumev3", 8776, "/v3/%(project_id)s", 18776},
	{"octavia", "load-balancer", 9876, "", 0}, {"designate", "dns", 9001, "", 19001},
}

// seedIdentity creates roles, projects, users and the catalog. It leaves existing objects unchanged.
func seedIdentity(ctx context.Context, b *Bed) error {
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
	return a.seedCatalog(ctx)
}

// seedCatalog adds the services of both regions to the catalog. It leaves existing entries unchanged.
func (a *admin) seedCatalog(ctx context.Context) error {
	k := a.b.keystone()
	have, err := a.list(ctx, k+"/endpoints", "endpoints")
	if err != nil {
		return err
	}
	known := map[[3]string]bool{}
	for _, o := range have {
		known[[3]string{o.text("service_id"), o.text("region_id"), o.text("interface")}] = true
	}
	for _, e := range catalog {
		id, err := a.ensure(ctx, k+"/services", "services", "service", object{"name": e.Name, "type": e.Kind})
		if err != nil {
			return err
		}
		urls := map[string]string{region: "http://" + a.b.api(e.Port) + e.path}
		if e.TLS != 0 {
			urls[tlsRegion] = "https://" + a.b.api(e.TLS) + e.path
		}
		for name, url := range urls {
			for _, i := range []string{"public", "internal", "admin"} {
				if known[[3]string{id, name, i}] {
					continue
				}
				body := object{"endpoint": object{"service_id": id, "url": url, "interface": i, "region": name}} // this also creates the region
				if _, err := a.call(ctx, http.MethodPost, k+"/endpoints", body, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
