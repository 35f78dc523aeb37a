package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	patience = 5 * time.Minute // for all addons
	pause    = 200 * time.Millisecond
)

// object is one that an addon serves.
type object struct{ path, json string }

var service = object{"/api/v1/namespaces/default/services/bench",
	`{"apiVersion":"v1","kind":"Service","metadata":{"name":"bench"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}`}

// allWork waits until every addon serves its users.
func allWork(ctx context.Context, set *kubernetes.Clientset) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	wait := func(what string, ok func() error) func() error {
		return func() error {
			for {
				err := ok()
				if err == nil {
					return nil
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("wait until %s: %w", what, err)
				case <-time.After(pause):
				}
			}
		}
	}
	return together(
		wait("the metrics API has all nodes", func() error {
			var list struct{ Items []any }
			err := get(ctx, set, "/apis/metrics.k8s.io/v1beta1/nodes", &list)
			if err == nil && len(list.Items) < nodes {
				err = fmt.Errorf("it has %d", len(list.Items))
			}
			return err
		}),
		wait("a Service has an address", func() error {
			var s struct {
				Status struct{ LoadBalancer struct{ Ingress []any } }
			}
			err := errors.Join(put(ctx, set, service), get(ctx, set, service.path, &s))
			if err == nil && len(s.Status.LoadBalancer.Ingress) == 0 {
				err = errors.New("it has none")
			}
			return err
		}),
	)
}

// tidy deletes the object of allWork.
func tidy(ctx context.Context, set *kubernetes.Clientset) error {
	return set.RESTClient().Delete().AbsPath(service.path).Do(ctx).Error()
}

func get(ctx context.Context, set *kubernetes.Clientset, path string, into any) error {
	raw, err := set.RESTClient().Get().AbsPath(path).DoRaw(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// put applies an object.
func put(ctx context.Context, set *kubernetes.Clientset, o object) error {
	return set.RESTClient().Patch(types.ApplyPatchType).AbsPath(o.path).Param("fieldManager", "bench").Body([]byte(o.json)).Do(ctx).Error()
}
