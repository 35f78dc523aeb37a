package kube

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naupegos/naupegos/internal/fail"
)

// RunningPod is a pod that has not ended.
type RunningPod struct {
	UID, Namespace, Name, Node string
	Started                    time.Time // start of its oldest container; zero if none runs
	Mounted                    bool      // it has a token
}

// Pods lists the pods that are bound to a node and have not ended.
func (c *Client) Pods(ctx context.Context) (list []RunningPod, err error) {
	o := metav1.ListOptions{Limit: rewritePage}
	for {
		pods, err := c.set.CoreV1().Pods("").List(ctx, o)
		if err != nil {
			return nil, apiError(ctx, err, "list pods").At(c.server)
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if p.Spec.NodeName == "" || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				continue
			}
			list = append(list, runningPod(p))
		}
		if o.Continue = pods.Continue; o.Continue == "" {
			return list, nil
		}
	}
}

func runningPod(p *corev1.Pod) RunningPod {
	i := RunningPod{UID: string(p.UID), Namespace: p.Namespace, Name: p.Name, Node: p.Spec.NodeName}
	for _, s := range p.Status.ContainerStatuses {
		if r := s.State.Running; r != nil && (i.Started.IsZero() || r.StartedAt.Time.Before(i.Started)) {
			i.Started = r.StartedAt.Time
		}
	}
	for _, v := range p.Spec.Volumes {
		for _, s := range projections(v) {
			i.Mounted = i.Mounted || s.ServiceAccountToken != nil
		}
	}
	return i
}

func projections(v corev1.Volume) []corev1.VolumeProjection {
	if v.Projected == nil {
		return nil
	}
	return v.Projected.Sources
}

// StoredToken is a service-account token that is stored in a Secret and does not expire.
type StoredToken struct{ Namespace, Name, KeyID string }

// String names the Secret.
func (s StoredToken) String() string { return s.Namespace + "/" + s.Name }

// StoredTokens lists the tokens stored in Secrets. A Secret that has no token yet has no KeyID.
func (c *Client) StoredTokens(ctx context.Context) (list []StoredToken, err error) {
	secrets, err := c.set.CoreV1().Secrets("").List(ctx, metav1.ListOptions{FieldSelector: "type=" + string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return nil, apiError(ctx, err, "list tokens in Secrets").At(c.server)
	}
	for i := range secrets.Items {
		s := &secrets.Items[i]
		list = append(list, StoredToken{Namespace: s.Namespace, Name: s.Name, KeyID: tokenKeyID(s.Data[corev1.ServiceAccountTokenKey])})
	}
	return list, nil
}

// tokenKeyID returns the ID of the key that signed a token, or "" if the input is no token.
func tokenKeyID(token []byte) string {
	head, _, _ := bytes.Cut(token, []byte("."))
	data, err := base64.RawURLEncoding.DecodeString(string(head))
	var header struct {
		KeyID string `json:"kid"`
	}
	if err != nil || json.Unmarshal(data, &header) != nil {
		return ""
	}
	return header.KeyID
}

// RenewToken deletes the token in a Secret, so that the controller manager puts a new one there.
func (c *Client) RenewToken(ctx context.Context, s StoredToken) error {
	patch := []byte(`{"data":{"` + corev1.ServiceAccountTokenKey + `":null}}`)
	_, err := c.set.CoreV1().Secrets(s.Namespace).Patch(ctx, s.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return apiError(ctx, err, "renew the token in Secret %s", s).At(c.server)
}

// authenticationConfig is the ConfigMap in which API servers tell aggregated API servers, controller managers and schedulers which authorities'
// client certificates to accept. API servers add their own authorities to it and remove none.
const authenticationConfig = "extension-apiserver-authentication"

// Distrust removes certificates (PEM) from the authorities that API servers publish, and reports whether it removed any.
func (c *Client) Distrust(ctx context.Context, certs []byte) (found bool, err error) {
	maps := c.set.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	m, err := maps.Get(ctx, authenticationConfig, metav1.GetOptions{})
	if err != nil {
		return false, apiError(ctx, err, "read ConfigMap %s", authenticationConfig).At(c.server)
	}
	for _, key := range []string{"client-ca-file", "requestheader-client-ca-file"} {
		kept, changed := without(m.Data[key], certs)
		if !changed {
			continue
		}
		if kept == "" {
			return false, fail.New(fail.NotReady, "API servers have not told their present authorities yet").At(authenticationConfig)
		}
		m.Data[key], found = kept, true
	}
	if !found {
		return false, nil
	}
	_, err = maps.Update(ctx, m, metav1.UpdateOptions{FieldManager: FieldManager})
	if apierrors.IsConflict(err) {
		return true, fail.Wrap(fail.NotReady, err, "change ConfigMap %s", authenticationConfig)
	}
	if err != nil {
		return true, apiError(ctx, err, "change ConfigMap %s", authenticationConfig).At(c.server)
	}
	return true, nil
}

// without returns the certificates of a bundle that are not among certs.
func without(bundle string, certs []byte) (kept string, changed bool) {
	gone := map[string]bool{}
	for b, rest := pem.Decode(certs); b != nil; b, rest = pem.Decode(rest) {
		gone[string(b.Bytes)] = true
	}
	var out strings.Builder
	for b, rest := pem.Decode([]byte(bundle)); b != nil; b, rest = pem.Decode(rest) {
		if gone[string(b.Bytes)] {
			changed = true
			continue
		}
		out.Write(pem.EncodeToMemory(b))
	}
	return out.String(), changed
}
