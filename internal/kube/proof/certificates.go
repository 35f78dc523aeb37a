package proof

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/kube"
	"github.com/naupegos/naupegos/internal/kube/answer"
)

// probe is the name of the Issuer, the Certificate and the Secret of the test of cert-manager, and probeHost the name in the certificate.
const (
	probe     = "naupegos-probe"
	probeHost = "probe.naupegos.invalid"
)

// cleaning limits the removal of the probe.
const cleaning = 30 * time.Second

// probeObjects are the probe's objects in the order of their creation, by resource.
var probeObjects = []struct{ resource, body string }{
	{"issuers", `{"apiVersion":"cert-manager.io/v1","kind":"Issuer","metadata":{"name":"` + probe + `"},"spec":{"selfSigned":{}}}`},
	{"certificates", `{"apiVersion":"cert-manager.io/v1","kind":"Certificate","metadata":{"name":"` + probe + `"},"spec":{"secretName":"` + probe + `","dnsNames":["` + probeHost + `"],` +
		`"privateKey":{"algorithm":"ECDSA","size":256},"issuerRef":{"group":"cert-manager.io","kind":"Issuer","name":"` + probe + `"}}}`},
}

// IssueCertificate lets cert-manager issue a self-signed certificate in a namespace, bounded by ctx, and removes it and its issuer again. It returns the time until
// the certificate was there. The webhook sees both objects.
func IssueCertificate(ctx context.Context, c *kube.Client, namespace string) (time.Duration, error) {
	began := time.Now()
	err := answer.Poll(ctx, pause, func(ctx context.Context) error {
		if err := removeProbe(ctx, c, namespace); err != nil { // of an interrupted test
			return err
		}
		for _, o := range probeObjects {
			if err := kube.Set(c).Discovery().RESTClient().Post().AbsPath(certificatesPath(namespace)+o.resource).Body([]byte(o.body)).SetHeader("Content-Type", "application/json").Do(ctx).Error(); err != nil {
				return awaited(ctx, c, err, "create an object of cert-manager's (%s)", o.resource).Do("look at the logs of Deployments %s/cert-manager-webhook and cert-manager-cainjector", namespace)
			}
		}
		return nil
	})
	if err == nil {
		err = answer.Poll(ctx, pause, func(ctx context.Context) error { return issued(ctx, c, namespace) })
	}
	took := time.Since(began)
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleaning)
	defer cancel()
	if e := removeProbe(cleanup, c, namespace); err == nil {
		err = e
	}
	return took, err
}

func certificatesPath(namespace string) string {
	return "/apis/cert-manager.io/v1/namespaces/" + namespace + "/"
}

// issued returns fail.NotReady until the probe's Secret has its certificate.
func issued(ctx context.Context, c *kube.Client, namespace string) error {
	raw, err := kube.Set(c).Discovery().RESTClient().Get().AbsPath(certificatesPath(namespace) + "certificates/" + probe).DoRaw(ctx)
	if err != nil {
		return awaited(ctx, c, err, "get the certificate")
	}
	var live struct {
		Status struct{ Conditions []metav1.Condition }
	}
	if err := json.Unmarshal(raw, &live); err != nil {
		return fail.Wrap(fail.Internal, err, "read the certificate").At(c.Server())
	}
	i := slices.IndexFunc(live.Status.Conditions, func(m metav1.Condition) bool { return m.Type == "Ready" })
	if i < 0 || live.Status.Conditions[i].Status != metav1.ConditionTrue {
		why := "nothing said about it"
		if i >= 0 {
			why = live.Status.Conditions[i].Message
		}
		return fail.New(fail.NotReady, "a self-signed certificate is not issued: %s", why).At(c.Server()).Do("look at the log of Deployment %s/cert-manager", namespace)
	}
	s, err := kube.Set(c).CoreV1().Secrets(namespace).Get(ctx, probe, metav1.GetOptions{})
	if err != nil {
		return awaited(ctx, c, err, "get the Secret of the certificate")
	}
	if err := certifies(s, probeHost); err != nil {
		return fail.Wrap(fail.Internal, err, "read the certificate that cert-manager issued").At(c.Server())
	}
	return nil
}

// certifies returns an error unless a Secret holds a key and a certificate for a name.
func certifies(s *corev1.Secret, host string) error {
	block, _ := pem.Decode(s.Data[corev1.TLSCertKey])
	if block == nil || len(s.Data[corev1.TLSPrivateKeyKey]) == 0 {
		return fmt.Errorf("the Secret %s has no certificate and key", s.Name)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	return cert.VerifyHostname(host)
}

// removeProbe removes the probe's objects, the Secret last: cert-manager would recreate it.
func removeProbe(ctx context.Context, c *kube.Client, namespace string) error {
	for _, o := range slices.Backward(probeObjects) {
		err := kube.Set(c).Discovery().RESTClient().Delete().AbsPath(certificatesPath(namespace) + o.resource + "/" + probe).Do(ctx).Error()
		if err != nil && !apierrors.IsNotFound(err) {
			return awaited(ctx, c, err, "remove an object of cert-manager's (%s)", o.resource)
		}
	}
	err := kube.Set(c).CoreV1().Secrets(namespace).Delete(ctx, probe, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return awaited(ctx, c, err, "remove the Secret of the certificate")
	}
	return nil
}
