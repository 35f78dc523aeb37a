package kube

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	rewritePage = 200
	rewriters   = 8 // at once; the client's own limit of requests bounds them further
)

// RewriteSecrets updates every Secret to what it is: an API server stores it again then, if it would be stored in another way today
// (https://kubernetes.io/docs/tasks/administer-cluster/encrypt-data). It returns how many there are. done may be nil; it is told how many
// are done. What somebody else changes or deletes meanwhile is stored by that.
func (c *Client) RewriteSecrets(ctx context.Context, done func(n int)) (int, error) {
	n, list := 0, metav1.ListOptions{Limit: rewritePage}
	for {
		secrets, err := c.set.CoreV1().Secrets("").List(ctx, list)
		if err != nil {
			return n, apiError(ctx, err, "list Secrets").At(c.server)
		}
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(rewriters)
		for i := range secrets.Items {
			s := &secrets.Items[i]
			g.Go(func() error {
				_, err := c.set.CoreV1().Secrets(s.Namespace).Update(gctx, s, metav1.UpdateOptions{})
				if err == nil || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
					return nil
				}
				return apiError(gctx, err, "store Secret %s of namespace %s again", s.Name, s.Namespace).At(c.server)
			})
		}
		if err := g.Wait(); err != nil {
			return n, err
		}
		if n += len(secrets.Items); done != nil {
			done(n)
		}
		if list.Continue = secrets.Continue; list.Continue == "" {
			return n, nil
		}
	}
}
