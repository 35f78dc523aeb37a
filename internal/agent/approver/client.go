package approver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/naupegos/naupegos/internal/fail"
)

const collection = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// client is a minimal API client.
type client struct {
	server string
	http   *http.Client
}

// csr is a CertificateSigningRequest: the fields that the decision depends on, and the raw object, which is sent back whole.
type csr struct {
	Metadata struct {
		Name            string `json:"name"`
		UID             string `json:"uid"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec   request `json:"spec"`
	Status struct {
		Conditions []struct {
			Type string `json:"type"`
		} `json:"conditions"`
		Certificate []byte `json:"certificate"`
	} `json:"status"`
	raw json.RawMessage
}

// UnmarshalJSON keeps the raw object.
func (c *csr) UnmarshalJSON(data []byte) error {
	type plain csr
	if err := json.Unmarshal(data, (*plain)(c)); err != nil {
		return err
	}
	c.raw = bytes.Clone(data)
	return nil
}

// decided reports whether the request was already approved or denied.
func (c *csr) decided() bool {
	for _, cond := range c.Status.Conditions {
		if cond.Type == "Approved" || cond.Type == "Denied" {
			return true
		}
	}
	return len(c.Status.Certificate) > 0
}

func (c *client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.server+path, bytes.NewReader(body))
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "call the API server").At(c.server)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "naupegos-approver")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "call the API server").At(c.server)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 500)) // only for the message
	kind := map[int]fail.Kind{401: fail.Unauthorized, 403: fail.Unauthorized, 404: fail.NotFound, 409: fail.Conflict, 410: fail.Conflict}[resp.StatusCode]
	if kind == fail.Internal && resp.StatusCode >= 500 {
		kind = fail.NotReady
	}
	return nil, fail.New(kind, "%s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text)).At(c.server)
}

// list returns all requests to the signer, and the version to watch from.
func (c *client) list(ctx context.Context) ([]csr, string, error) {
	resp, err := c.do(ctx, http.MethodGet, collection+"?"+query(nil), nil)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	var list struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Items []csr `json:"items"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&list); err != nil {
		return nil, "", fail.Wrap(fail.Unreachable, err, "list certificate signing requests").At(c.server)
	}
	return list.Items, list.Metadata.ResourceVersion, nil
}

// watch calls see for each new or changed request until the API server ends the watch after seconds.
func (c *client) watch(ctx context.Context, version string, seconds int, see func(csr)) error {
	resp, err := c.do(ctx, http.MethodGet, collection+"?"+query(url.Values{
		"watch": {"true"}, "resourceVersion": {version}, "timeoutSeconds": {fmt.Sprint(seconds)},
	}), nil)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	dec := json.NewDecoder(resp.Body)
	for {
		var event struct {
			Type   string          `json:"type"`
			Object json.RawMessage `json:"object"`
		}
		err := dec.Decode(&event)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fail.Wrap(fail.Unreachable, err, "watch certificate signing requests").At(c.server)
		}
		if event.Type != "ADDED" && event.Type != "MODIFIED" {
			if event.Type == "ERROR" {
				return nil // the version is too old: list again
			}
			continue
		}
		var r csr
		if err := json.Unmarshal(event.Object, &r); err != nil {
			return fail.Wrap(fail.Internal, err, "read a certificate signing request").At(c.server)
		}
		see(r)
	}
}

func query(more url.Values) string {
	q := url.Values{"fieldSelector": {"spec.signerName=" + signer}}
	for k, v := range more {
		q[k] = v
	}
	return q.Encode()
}

// decideOn records a verdict on the request. The resourceVersion ensures that the recorded verdict belongs to the judged request.
func (c *client) decideOn(ctx context.Context, r csr, v verdict, message string) error {
	var object map[string]any
	if err := json.Unmarshal(r.raw, &object); err != nil {
		return fail.Wrap(fail.Internal, err, "read certificate signing request %s", r.Metadata.Name)
	}
	condition := map[string]any{"type": "Approved", "status": "True", "reason": "MachineIdentityChecked", "message": message}
	if v == deny {
		condition["type"], condition["reason"] = "Denied", "MachineIdentityMismatch"
	}
	status, _ := object["status"].(map[string]any)
	if status == nil {
		status = map[string]any{}
	}
	conditions, _ := status["conditions"].([]any)
	status["conditions"] = append(conditions, condition)
	object["status"] = status
	body, err := json.Marshal(object)
	if err != nil {
		return fail.Wrap(fail.Internal, err, "write certificate signing request %s", r.Metadata.Name)
	}
	resp, err := c.do(ctx, http.MethodPut, collection+"/"+url.PathEscape(r.Metadata.Name)+"/approval", body)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

func decode(s string) ([]byte, error) { return base64.StdEncoding.DecodeString(s) }
