package approver

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/naupegos/naupegos/internal/fail"
)

// cached rereads a file only when it has changed.
type cached[T any] struct {
	path  string
	parse func([]byte) (T, error)
	seen  fs.FileInfo
	value T
}

func (c *cached[T]) get() (T, error) {
	info, err := os.Stat(c.path)
	if err != nil {
		return c.value, fail.Wrap(fail.NotFound, err, "read").At(c.path)
	}
	if c.seen != nil && os.SameFile(info, c.seen) && info.ModTime().Equal(c.seen.ModTime()) && info.Size() == c.seen.Size() {
		return c.value, nil
	}
	data, err := os.ReadFile(c.path)
	if err != nil {
		return c.value, fail.Wrap(fail.NotFound, err, "read").At(c.path)
	}
	value, err := c.parse(data)
	if err != nil {
		return c.value, fail.Wrap(fail.Invalid, err, "read").At(c.path)
	}
	c.value, c.seen = value, info
	return value, nil
}

// parseMachines parses {"nodes":{"demo-cp-1":["10.0.0.21"]}}: the addresses and further DNS names of each node.
func parseMachines(data []byte) (map[string][]string, error) {
	var file struct {
		Nodes map[string][]string `json:"nodes"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, err
	}
	return file.Nodes, nil
}

// kubeconfig has the fields of a kubeconfig that the approver needs. It must contain the certificates and the key inline.
type kubeconfig struct {
	Clusters []struct {
		Cluster struct {
			Server string `yaml:"server"`
			CAText string `yaml:"certificate-authority-data"`
		} `yaml:"cluster"`
	} `yaml:"clusters"`
	Users []struct {
		User struct {
			Cert string `yaml:"client-certificate-data"`
			Key  string `yaml:"client-key-data"`
		} `yaml:"user"`
	} `yaml:"users"`
}

// parseKubeconfig returns a client for a kubeconfig with one cluster and one user. Its errors contain nothing of the key.
func parseKubeconfig(data []byte) (*client, error) {
	var k kubeconfig
	if err := yaml.Unmarshal(data, &k); err != nil {
		return nil, errors.New("it is not YAML") // cause withheld: it may quote a secret
	}
	if len(k.Clusters) != 1 || len(k.Users) != 1 || k.Clusters[0].Cluster.Server == "" {
		return nil, errors.New("it must have exactly one cluster with a server, and one user")
	}
	ca, err1 := decode(k.Clusters[0].Cluster.CAText)
	cert, err2 := decode(k.Users[0].User.Cert)
	key, err3 := decode(k.Users[0].User.Key)
	if err1 != nil || err2 != nil || err3 != nil {
		return nil, errors.New("certificate-authority-data, client-certificate-data and client-key-data must be base64")
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, errors.New("client-certificate-data and client-key-data are not a certificate and its key") // cause withheld: it may quote a secret
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return nil, errors.New("certificate-authority-data holds no certificate")
	}
	return &client{server: k.Clusters[0].Cluster.Server, http: &http.Client{Transport: &http.Transport{
		TLSClientConfig:       &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 10 * time.Second}).DialContext,
		ResponseHeaderTimeout: 15 * time.Second,
		TLSHandshakeTimeout:   5 * time.Second,
		IdleConnTimeout:       time.Minute,
		ForceAttemptHTTP2:     true,
	}}}, nil
}
