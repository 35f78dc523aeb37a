package access

import (
	"context"
	"net/http"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/naupegos/naupegos/internal/provider/openstack/cloud"
)

// Refuses reports whether the service refuses a client with access rules although it answers the user's own client.
func (s Service) Refuses(ctx context.Context, own, bounded *gophercloud.ServiceClient) (bool, error) {
	var answer any
	url := s.ProbeURL(own.Endpoint)
	err := cloud.GetURL(ctx, bounded, &answer, url)
	if err == nil {
		return false, nil
	}
	err = cloud.GetURL(ctx, own, &answer, url)
	if status := cloud.Status(err); err != nil && (status < http.StatusBadRequest || status >= http.StatusInternalServerError) {
		return false, cloud.Wrap(err, "ask the %s service", s.Name)
	}
	return err == nil, nil // a call that the user may not make either proves nothing about access rules
}
