package kube

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
)

// Answer is the answer of a pod to an HTTP request through the API server. It is untrusted.
type Answer struct {
	Code int
	Type string // Content-Type
	Body []byte
}

// AskPod sends a GET to a pod's port through the API server, and reads at most the given number of bytes of the answer; a longer one is fail.Refused.
// It follows no redirection. An answer of the API server's own, such as one about a missing pod, is an error.
func AskPod(ctx context.Context, c *Client, namespace, pod, port, path string, query url.Values, most int64) (*Answer, error) {
	at := c.server + "/api/v1/namespaces/" + url.PathEscape(namespace) + "/pods/" + url.PathEscape(pod+":"+port) + "/proxy/" + path + "?" + query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "ask pod %s", pod)
	}
	req.Header.Set("Accept", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		e := apiError(ctx, err, "ask pod %s at port %s", pod, port).At(c.server)
		if of, is := errors.AsType[*url.Error](err); is { // the address is long, for it has the query
			e.Err = of.Err
		}
		return nil, e
	}
	defer resp.Body.Close() // read only
	body, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	if err != nil {
		return nil, apiError(ctx, err, "read the answer of pod %s at port %s", pod, port).At(c.server)
	}
	if int64(len(body)) > most {
		return nil, fail.New(fail.Refused, "the answer of pod %s at port %s is larger than %d KiB", pod, port, most>>10).At(c.server)
	}
	if resp.StatusCode != http.StatusOK {
		if err := ofAPI(body); err != nil {
			return nil, apiError(ctx, err, "ask pod %s at port %s", pod, port).At(c.server)
		}
	}
	return &Answer{resp.StatusCode, resp.Header.Get("Content-Type"), body}, nil
}

// ofAPI returns the error in an answer of the API server, or nil if another program answered.
func ofAPI(body []byte) error {
	var s metav1.Status
	if json.Unmarshal(body, &s) != nil || s.Kind != "Status" || s.Status != metav1.StatusFailure {
		return nil
	}
	return apierrors.FromObject(&s)
}

// Trouble returns why a pod is not ready, in the words of the scheduler, its kubelet or its containers; empty if it is ready or has succeeded.
func Trouble(p *corev1.Pod) string {
	where := "pod " + p.Name
	if p.Spec.NodeName != "" {
		where += " on " + p.Spec.NodeName
	}
	return strings.TrimPrefix(trouble(p), where+": ")
}
