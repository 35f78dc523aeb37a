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

var (
	service = object{"/api/v1/namespaces/default/services/bench",
		`{"apiVersion":"v1","kind":"Service","metadata":{"name":"bench"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}`}
	issuer = object{"/apis/cert-manager.io/v1/namespaces/default/issuers/bench",
		`{"apiVersion":"cert-manager.io/v1","kind":"Issuer","metadata":{"name":"bench"},"spec":{"selfSigned":{}}}`}
	certificate = object{"/apis/cert-manager.io/v1/namespaces/default/certificates/bench",
		`{"apiVersion":"cert-manager.io/v1","kind":"Certificate","metadata":{"name":"bench"},"spec":{"secretName":"bench","dnsNames":["bench.example"],"issuerRef":{"name":"bench"}}}`}
	secret = object{path: "/api/v1/namespaces/default/secrets/bench"}
)

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
		wait("a certificate is issued", func() error {
			var c struct {
				Status struct {
					Conditions []struct{ Type, Status string }
				}
			}
			if err := errors.Join(put(ctx, set, issuer), put(ctx, set, certificate), get(ctx, set, certificate.path, &c)); err != nil {
				return err
			}
			for _, cond := range c.Status.Conditions {
				if cond.Type == "Ready" && cond.Status == "True" {
					return nil
				}
			}
			return fmt.Errorf("its conditions are %v", c.Status.Conditions)
		}),
	)
}

// tidy deletes the objects of allWork.
func tidy(ctx context.Context, set *kubernetes.Clientset) error {
	var errs []error
	for _, o := range []object{certificate, issuer, service, secret} {
		errs = append(errs, set.RESTClient().Delete().AbsPath(o.path).Do(ctx).Error())
	}
	return errors.Join(errs...)
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
