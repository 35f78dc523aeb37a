// Package gatewaycheck checks whether a gateway forwards to the API.
package gatewaycheck

import (
	"context"
	"net/http"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Ask requests url once and requires status 200. An apply that changes gateways waits for it; keepalived has a script of its own.
func Ask(ctx context.Context, url string, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fail.Wrap(fail.Invalid, err, "check %s", url)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // never through a proxy
	resp, err := client.Do(req)
	if err != nil {
		return fail.Wrap(fail.Unreachable, err, "check %s", url)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fail.New(fail.NotReady, "%s answers %s", url, resp.Status)
	}
	return nil
}
