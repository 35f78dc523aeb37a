package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
)

// bare creates the machines with the fewest possible requests and nothing else: no load balancer, no security groups, no tags, no look at
// existing objects. Its time to create is about the time that the services themselves need, a lower bound for every program.
type bare struct {
	size
	in      *session
	network string
	group   string
	ports   []string
	servers []string
}

// atOnce is the number of concurrent requests.
const atOnce = 8

func (b *bare) name() string { return "the services alone" }

// post creates an object in a service and returns its ID.
func (b *bare) post(ctx context.Context, service, version, path, key string, what object) (string, error) {
	base, err := b.in.address(service, version)
	if err != nil {
		return "", err
	}
	var answer map[string]object
	if _, err := b.in.call(ctx, http.MethodPost, base+path, object{key: what}, &answer); err != nil {
		return "", err
	}
	return text(answer[key], "id"), nil
}

func (b *bare) create(ctx context.Context) (err error) {
	n := b.controlPlanes + b.workers
	if b.network, err = b.post(ctx, "network", "v2.0", "/networks", "network", object{"name": "bare"}); err != nil {
		return err
	}
	subnet := object{"network_id": b.network, "cidr": cidr, "ip_version": 4}
	if _, err := b.post(ctx, "network", "v2.0", "/subnets", "subnet", subnet); err != nil {
		return err
	}
	policy := object{"name": "bare", "policies": []string{"soft-anti-affinity"}}
	if b.group, err = b.post(ctx, "compute", "v2.1", "/os-server-groups", "server_group", policy); err != nil {
		return err
	}
	image, err := b.idOf(ctx, "image", "v2", "/images", "images", b.image)
	if err != nil {
		return err
	}
	flavor, err := b.idOf(ctx, "compute", "v2.1", "/flavors", "flavors", b.flavor)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	volumes := make([]string, n)
	g.Go(func() error { return b.makePorts(gctx, n) })
	if b.volume > 0 {
		g.Go(func() error { return b.makeVolumes(gctx, volumes, image) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return b.makeServers(ctx, volumes, flavor, image)
}

// idOf returns the ID of the object with a name.
func (b *bare) idOf(ctx context.Context, service, version, path, key, name string) (string, error) {
	all, err := b.in.list(ctx, service, version, path, key)
	for _, o := range all {
		if text(o, "name") == name {
			return text(o, "id"), nil
		}
	}
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("no %s in %s", name, path)
}

func (b *bare) makePorts(ctx context.Context, n int) error {
	base, err := b.in.address("network", "v2.0")
	if err != nil {
		return err
	}
	for len(b.ports) < n {
		var want []object
		for i := len(b.ports); i < min(n, len(b.ports)+10); i++ {
			want = append(want, object{"name": fmt.Sprintf("bare-%d", i), "network_id": b.network})
		}
		var made struct{ Ports []object }
		if _, err := b.in.call(ctx, http.MethodPost, base+"/ports", object{"ports": want}, &made); err != nil {
			return err
		}
		for _, o := range made.Ports {
			b.ports = append(b.ports, text(o, "id"))
		}
	}
	return nil
}

func (b *bare) makeVolumes(ctx context.Context, ids []string, image string) error {
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i := range ids {
		g.Go(func() (err error) {
			ids[i], err = b.post(gctx, "block-storage", "v3", "/volumes", "volume", object{"name": fmt.Sprintf("bare-%d", i), "size": b.volume, "imageRef": image})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if err := b.until(ctx, "block-storage", "v3", "/volumes?status=creating", "volumes"); err != nil {
		return err
	}
	return b.until(ctx, "block-storage", "v3", "/volumes?status=downloading", "volumes")
}

// makeServers creates the servers, each from its volume or, if it has none, from the image.
func (b *bare) makeServers(ctx context.Context, volumes []string, flavor, image string) error {
	b.servers = make([]string, len(volumes))
	base, err := b.in.address("compute", "v2.1")
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for i, v := range volumes {
		g.Go(func() error {
			want := object{"name": fmt.Sprintf("bare-%d", i), "flavorRef": flavor, "networks": []object{{"port": b.ports[i]}}}
			if v == "" {
				want["imageRef"] = image
			} else {
				disk := object{"uuid": v, "source_type": "volume", "destination_type": "volume", "boot_index": 0, "delete_on_termination": true}
				want["block_device_mapping_v2"] = []object{disk}
			}
			ask := object{"server": want, "os:scheduler_hints": object{"group": b.group}}
			var made struct{ Server object }
			_, err := b.in.call(gctx, http.MethodPost, base+"/servers", ask, &made)
			b.servers[i] = text(made.Server, "id")
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return b.until(ctx, "compute", "v2.1", "/servers?status=BUILD", "servers")
}

// until waits until a list is empty.
func (b *bare) until(ctx context.Context, service, version, path, key string) error {
	for {
		left, err := b.in.list(ctx, service, version, path, key)
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d %s of %s are left: %w", len(left), key, path, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// nothing lists the servers once.
func (b *bare) nothing(ctx context.Context) error {
	_, err := b.in.list(ctx, "compute", "v2.1", "/servers", "servers")
	return err
}

func (b *bare) destroy(ctx context.Context) error {
	if err := b.remove(ctx, "compute", "v2.1", "/servers", b.servers); err != nil {
		return err
	}
	if err := b.until(ctx, "compute", "v2.1", "/servers", "servers"); err != nil {
		return err
	}
	left, err := b.in.list(ctx, "block-storage", "v3", "/volumes/detail?status=available", "volumes")
	if err != nil {
		return err
	}
	var volumes []string // those without a server; the other volumes are removed with their servers
	for _, v := range left {
		volumes = append(volumes, text(v, "id"))
	}
	return errors.Join(
		b.remove(ctx, "block-storage", "v3", "/volumes", volumes),
		b.remove(ctx, "network", "v2.0", "/ports", b.ports),
		b.remove(ctx, "compute", "v2.1", "/os-server-groups", []string{b.group}),
		b.remove(ctx, "network", "v2.0", "/networks", []string{b.network}),
	)
}

func (b *bare) remove(ctx context.Context, service, version, path string, ids []string) error {
	base, err := b.in.address(service, version)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, id := range ids {
		g.Go(func() error {
			if id == "" { // it was not created
				return nil
			}
			_, err := b.in.call(gctx, http.MethodDelete, base+path+"/"+id, nil, nil)
			if errors.Is(err, errGone) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}
