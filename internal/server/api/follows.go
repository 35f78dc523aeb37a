package api

import (
	"context"
	"net/http"

	"github.com/naupegos/naupegos/internal/server"
	"github.com/naupegos/naupegos/internal/server/access"
	"github.com/naupegos/naupegos/internal/server/follow"
)

type followList struct {
	Body struct {
		Items []follow.Followed `json:"items"`
	}
}

func (a *api) follows() {
	add(a, operation{id: "list-follows", method: http.MethodGet, path: "/api/v1/follows", role: server.Read, scope: server.Own(),
		summary: "List the clusters that follow documents in Git repositories, with their reviews",
		text:    "To approve a review, send its asked, digest and id (as review) to POST /api/v1/jobs, with the consents that it needs."}, a.listFollows)
}

func (a *api) listFollows(ctx context.Context, _ *struct{}) (*followList, error) {
	out := &followList{}
	var err error
	out.Body.Items, err = follow.NewFollows(a.Store.ServerSecrets()).List(ctx, access.From(ctx).Sees)
	return out, err
}
