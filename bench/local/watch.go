package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/kube"
)

const (
	pollPause = 100 * time.Millisecond
	patience  = 6 * time.Minute // for each milestone
	nodes     = 5
)

// until polls ok until it returns nil.
func until(ctx context.Context, what string, ok func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		err := ok(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, err)
		case <-time.After(pollPause):
		}
	}
}

// milestones watches a cluster come up: the API, five Ready nodes, and a Service that answers a machine. dial opens a connection from that
// machine. milestones applies the workload as soon as the API accepts it.
func milestones(ctx context.Context, began time.Time, client *kube.Client, image string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) (times, error) {
	var t times
	if err := until(ctx, "the API answers", client.Ready); err != nil {
		return t, err
	}
	t.api = time.Since(began)
	served := make(chan error, 1)
	go func() {
		served <- until(ctx, "the workload is applied", func(ctx context.Context) error {
			_, err := client.Apply(ctx, workload(image), kube.ApplyOptions{})
			return err
		})
	}()
	err := until(ctx, "five nodes are Ready", func(ctx context.Context) error { return fiveReady(ctx, client) })
	if err != nil {
		return t, err
	}
	t.ready = time.Since(began)
	if err := <-served; err != nil {
		return t, err
	}
	web := &http.Client{Timeout: time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	err = until(ctx, "the Service answers", func(ctx context.Context) error { return ask(ctx, web) })
	t.service = time.Since(began)
	return t, err
}

func fiveReady(ctx context.Context, client *kube.Client) error {
	list, err := client.Nodes(ctx)
	if err != nil {
		return err
	}
	ready := 0
	for _, n := range list {
		if n.Ready {
			ready++
		}
	}
	if ready < nodes {
		return fmt.Errorf("%d of %d nodes are Ready", ready, nodes)
	}
	return nil
}

// serviceIP is fixed, so that requests need no lookup.
const serviceIP = "10.96.100.100"

func ask(ctx context.Context, web *http.Client) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+serviceIP+"/", nil)
	if err != nil {
		return err
	}
	res, err := web.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", res.Status)
	}
	return nil
}

func workload(image string) []byte {
	return fmt.Appendf(nil, `apiVersion: apps/v1
kind: Deployment
metadata: {name: echo, namespace: default}
spec:
  replicas: 2
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      containers:
        - name: echo
          image: %s
          imagePullPolicy: IfNotPresent
          ports: [{containerPort: 8080}]
---
apiVersion: v1
kind: Service
metadata: {name: echo, namespace: default}
spec: {clusterIP: %s, selector: {app: echo}, ports: [{port: 80, targetPort: 8080}]}
`, image, serviceIP)
}

// hostCPU returns the CPU time that this host has used since it booted.
func hostCPU() (time.Duration, error) {
	f, err := os.Open("/proc/stat")
	if err != nil {
		return 0, err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadString('\n')
	if err != nil {
		return 0, err
	}
	var ticks int64
	for i, field := range strings.Fields(line) { // cpu user nice system idle iowait irq softirq …
		if i == 1 || i == 2 || i == 3 || i == 6 || i == 7 {
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				return 0, err
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil // USER_HZ is 100 on Linux
}
