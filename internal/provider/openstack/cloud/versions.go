package cloud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
)

// NewestVersion returns the newest version that a load-balancer service offers; empty if what stands in front of it does not tell: it may publish
// nothing but the paths below v2.0.
func NewestVersion(ctx context.Context, c *gophercloud.ServiceClient) (string, error) {
	var doc struct {
		Versions []struct {
			ID string `json:"id"`
		} `json:"versions"`
	}
	if err := GetURL(ctx, c, &doc, strings.TrimSuffix(strings.TrimSuffix(c.Endpoint, "v2.0/"), "v2/")); err != nil {
		var syntax *json.SyntaxError
		if s := Status(err); s >= 300 && s < 500 || errors.As(err, &syntax) || errors.Is(err, io.EOF) {
			return "", nil
		}
		return "", Wrap(err, "ask the load-balancer service for its versions")
	}
	newest := ""
	for _, v := range doc.Versions {
		if id := strings.TrimPrefix(v.ID, "v"); newest == "" || Older(newest, id) {
			newest = id
		}
	}
	return newest, nil
}

// Older compares versions such as 2.9 and 2.79. An unreadable version is not older.
func Older(a, b string) bool {
	var am, an, bm, bn int
	if _, err := fmt.Sscanf(a, "%d.%d", &am, &an); err != nil {
		return false
	}
	if _, err := fmt.Sscanf(b, "%d.%d", &bm, &bn); err != nil {
		return false
	}
	return am < bm || am == bm && an < bn
}
