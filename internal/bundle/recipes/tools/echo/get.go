package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// How patient get is. The pod's own deadline bounds the whole as well.
const (
	getAttempt = 2 * time.Second
	getPause   = 200 * time.Millisecond
	getTotal   = 3 * time.Minute
)

// get asks url until it is answered with success, and writes the answer. A new connection each time: a Service that does
// not lead anywhere yet must not hold it up.
func get(ctx context.Context, url string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, getTotal)
	defer cancel()
	client := &http.Client{Timeout: getAttempt, Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		err := once(ctx, client, url, out)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("get %s: %w", url, err)
		case <-time.After(getPause):
		}
	}
}

func once(ctx context.Context, client *http.Client, url string, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", res.Status)
	}
	_, err = io.Copy(out, res.Body)
	return err
}
