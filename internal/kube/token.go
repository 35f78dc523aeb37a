package kube

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
)

// CreateToken creates a bootstrap token with which `kubeadm join` adds machines to the cluster until it expires. The token is a secret:
// "abcdef.0123456789abcdef".
func (c *Client) CreateToken(ctx context.Context, ttl time.Duration, description string) (string, error) {
	if ttl <= 0 {
		return "", fail.New(fail.Invalid, "create a bootstrap token: it needs a lifetime")
	}
	id, secret := tokenPart(6), tokenPart(16)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-" + id, Namespace: metav1.NamespaceSystem},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			"token-id": id, "token-secret": secret, "description": description,
			"expiration":                     time.Now().Add(ttl).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true",
			"usage-bootstrap-signing":        "true",
			"auth-extra-groups":              "system:bootstrappers:kubeadm:default-node-token",
		},
	}
	if _, err := c.set.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, s, metav1.CreateOptions{FieldManager: FieldManager}); err != nil {
		return "", apiError(ctx, err, "create a bootstrap token").At(c.server)
	}
	return fmt.Sprintf("%s.%s", id, secret), nil
}

// tokenPart returns n random characters of [a-z2-7], which bootstrap tokens allow: five bits each.
func tokenPart(n int) string {
	const alphabet = "abcdefghijklmnopqrstuvwxyz234567"
	b := make([]byte, n)
	rand.Read(b) // never fails: it ends the process instead
	for i := range b {
		b[i] = alphabet[b[i]%32]
	}
	return string(b)
}

// WhoAmI returns the user as which the API authenticates this client.
func (c *Client) WhoAmI(ctx context.Context) (string, error) {
	r, err := c.set.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", apiError(ctx, err, "ask the API for the user of the credentials").At(c.server)
	}
	return r.Status.UserInfo.Username, nil
}

// ServiceAccountToken requests a token of a service account from the API, with the shortest lifetime that the API allows.
func (c *Client) ServiceAccountToken(ctx context.Context, namespace, name string) (string, error) {
	const shortest = 600 // seconds
	seconds := int64(shortest)
	r, err := c.set.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return "", apiError(ctx, err, "have the API issue a token of service account %s/%s", namespace, name).At(c.server)
	}
	return r.Status.Token, nil
}

// TokenUser returns the user as which the API authenticates the bearer of a token, or fail.Unauthorized if it rejects the token.
func (c *Client) TokenUser(ctx context.Context, token string) (string, error) {
	r, err := c.set.AuthenticationV1().TokenReviews().Create(ctx, &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil {
		return "", apiError(ctx, err, "ask the API whose a token is").At(c.server)
	}
	if !r.Status.Authenticated {
		return "", fail.New(fail.Unauthorized, "the API does not accept the token: %s", r.Status.Error)
	}
	return r.Status.User.Username, nil
}
