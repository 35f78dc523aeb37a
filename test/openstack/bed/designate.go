package bed

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/tool"
)

// Zone is the zone of the project of Cloud in Designate. BIND serves it at port 53 of the bed's address.
const Zone = "example.org."

// portZones is the port at which BIND takes over zones from Designate's mDNS.
const portZones = 5354

// designate lists Designate's services, and BIND, which publishes its zones.
func designate(b *Bed) []*Service {
	conf, needs := b.conf("designate", "designate.conf"), []string{"mariadb", "rabbitmq"}
	named := []string{b.api(53), local(inner.Control)}
	out := []*Service{
		{Name: "named", args: []string{"named", "-4", "-g", "-n", "1", "-c", filepath.Join(b.etc(), "bind", "named.conf")}, ports: named, ready: opens(named...)},
		b.wsgi("designate-api", 9001, "/usr/bin/designate-api-wsgi", "designate.conf", 1, 4),
		{Name: "designate-mdns", args: append([]string{"designate-mdns"}, conf...), needs: needs, ports: []string{b.api(portZones)}, ready: opens(b.api(portZones))},
	}
	for _, name := range []string{"designate-central", "designate-worker", "designate-producer"} {
		out = append(out, &Service{Name: name, args: append([]string{name}, conf...), needs: needs, ready: b.consumes(name)})
	}
	return out
}

func designateURL(b *Bed) string { return "http://" + b.api(9001) + "/v2" }

// seedZone tells Designate of BIND, and creates the zone of the project of Cloud. It leaves existing ones unchanged.
func seedZone(ctx context.Context, b *Bed) error {
	args := append(append([]string{"designate-manage"}, b.conf("designate", "designate.conf")...), "pool", "update", "--file", filepath.Join(b.etc(), "designate", "pools.yaml"))
	if err := runTool(ctx, b, "designate-manage", nil, args...); err != nil {
		return err
	}
	u, err := b.loginAs(ctx, Cloud, b.secrets.User)
	if err != nil {
		return err
	}
	id, err := u.ensure(ctx, designateURL(b)+"/zones", "zones", "", object{"name": Zone, "email": "hostmaster@example.org"})
	if err != nil {
		return err
	}
	var zone object
	err = tool.Until(ctx, waitPace, func() (bool, error) {
		_, err := u.call(ctx, "GET", designateURL(b)+"/zones/"+id, nil, &zone)
		return zone.text("status") == "ACTIVE", err
	})
	if err != nil {
		return fail.Wrap(fail.NotReady, err, "wait until BIND serves zone %s, which is %s", Zone, fmt.Sprint(zone["status"]))
	}
	return nil
}
