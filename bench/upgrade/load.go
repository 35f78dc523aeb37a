package main

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	space   = "bench-load"
	timeout = 3 * time.Second        // of each request
	pause   = 100 * time.Millisecond // between two rounds of a write, a read and a list
)

// load is a client that writes, reads and lists continuously and never retries.
type load struct {
	stop context.CancelFunc
	done chan result
}

// startLoad starts a load on the cluster's endpoint.
func startLoad(ctx context.Context, c *cluster) (*load, error) {
	set, err := c.Client(ctx, timeout)
	if err != nil {
		return nil, err
	}
	if _, err := set.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	l := &load{stop: stop, done: make(chan result, 1)}
	go func() { l.done <- ask(ctx, set) }()
	return l, nil
}

// end stops the client and returns its counts.
func (l *load) end() result {
	l.stop()
	return <-l.done
}

func ask(ctx context.Context, set kubernetes.Interface) (r result) {
	maps := set.CoreV1().ConfigMaps(space)
	wrote := time.Now()
	note := func(what string, err error) bool {
		if ctx.Err() != nil { // a request that end interrupted
			return false
		}
		if r.sent++; err != nil {
			r.failed++
			fmt.Fprintf(os.Stderr, "%s %s: %v\n", time.Now().Format("15:04:05.000"), what, err)
		}
		return err == nil
	}
	for n := 0; ctx.Err() == nil; n++ {
		name := fmt.Sprintf("seq-%06d", n)
		_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if note("create", err) {
			r.longest, wrote = max(r.longest, time.Since(wrote)), time.Now()
			_, err = maps.Get(ctx, name, metav1.GetOptions{})
			note("get", err)
		}
		if n%10 == 0 {
			_, err = maps.List(ctx, metav1.ListOptions{})
			note("list", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return r
}
