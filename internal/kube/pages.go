package kube

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naupegos/naupegos/internal/fail"
)

const (
	pageSize = 500
	// mostListed is the maximum number of objects in a list, over all pages. The largest clusters that Kubernetes supports have 150,000 pods
	// (https://kubernetes.io/docs/setup/best-practices/cluster-large/).
	mostListed = 200_000
)

// pages lists objects page by page, so that lists of large clusters fit into bounded answers. It restarts if the API server forgets its position.
func pages[T any](ctx context.Context, o metav1.ListOptions, page func(context.Context, metav1.ListOptions) ([]T, string, error)) (all []T, err error) {
	for o.Limit = pageSize; ; {
		items, next, err := page(ctx, o)
		switch {
		case apierrors.IsResourceExpired(err) && o.Continue != "" && o.Limit > 0:
			all, o.Continue, o.Limit = nil, "", 0 // the list changes faster than it reads pages: read it at once, as kubectl does
			continue
		case err != nil:
			return nil, err
		}
		if all = append(all, items...); len(all) > mostListed {
			return nil, fail.New(fail.Refused, "the API server lists more than %d objects", mostListed).Do("look at the cluster: another program answers, or it holds too much")
		}
		if next == "" || next == o.Continue {
			return all, nil
		}
		o.Continue = next
	}
}

// listPods lists the pods of all namespaces that a field selector chooses; empty: all.
func listPods(ctx context.Context, c *Client, fields string) ([]corev1.Pod, error) {
	return pages(ctx, metav1.ListOptions{FieldSelector: fields}, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Pod, string, error) {
		list, err := c.set.CoreV1().Pods("").List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.Continue, nil
	})
}

// listNodes lists all nodes.
func listNodes(ctx context.Context, c *Client) ([]corev1.Node, error) {
	return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]corev1.Node, string, error) {
		list, err := c.set.CoreV1().Nodes().List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.Continue, nil
	})
}

// listDefinitions lists the definitions of all custom resources.
func listDefinitions(ctx context.Context, c *Client) ([]unstructured.Unstructured, error) {
	return pages(ctx, metav1.ListOptions{}, func(ctx context.Context, o metav1.ListOptions) ([]unstructured.Unstructured, string, error) {
		o.Limit = min(o.Limit, 50) // some have a megabyte
		list, err := c.dynamic.Resource(definitions).List(ctx, o)
		if err != nil {
			return nil, "", err
		}
		return list.Items, list.GetContinue(), nil
	})
}
