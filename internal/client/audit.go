package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/naupegos/naupegos/internal/store"
)

// Audit returns the entries of the server's audit log that a query finds.
func (c *Client) Audit(ctx context.Context, q store.AuditQuery) ([]store.AuditEntry, error) {
	v := url.Values{}
	for name, value := range map[string]string{"who": q.Who, "cluster": q.Cluster, "outcome": q.Outcome} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(min(q.Limit, 1000)))
	}
	got, err := get[struct {
		Items []store.AuditEntry `json:"items"`
	}](ctx, c, http.MethodGet, "/api/v1/audit", v, nil)
	if err != nil {
		return nil, err
	}
	return got.Items, nil
}
