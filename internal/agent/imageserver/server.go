// Package imageserver is a read-only registry of container images for the machines of one cluster. It serves files named by digest, and an index with
// the images' names.
//
// It knows nothing of bundles and clusters.
package imageserver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// Options configures a server.
type Options struct {
	Listen    string   // "10.0.0.1:5443"
	Index     string   // file with an Index; a change takes effect with the next request
	Blobs     []string // directories with files named by the digits of their digests
	Cert, Key string   // files of the server's certificate
	CA        string   // file with the authorities of clients' certificates
	Groups    []string // organisations, one of which a client's certificate must have
	Log       *slog.Logger
}

// Run serves until ctx ends.
func Run(ctx context.Context, o Options) error {
	config, err := o.tls()
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", o.Listen)
	if err != nil {
		return fail.Wrap(fail.Conflict, err, "listen").At(o.Listen)
	}
	s := &http.Server{
		Handler: New(o), TLSConfig: config, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug), BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTLS(l, "", "") }()
	o.Log.Info("serving images", "address", o.Listen)
	select {
	case err = <-ended:
		return fail.Wrap(fail.Internal, err, "serve images").At(o.Listen)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(last); err != nil {
		return s.Close() // cut off open requests: clients continue with the other replica
	}
	return nil
}

func (o Options) tls() (*tls.Config, error) {
	cert, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the registry's certificate").At(o.Cert)
	}
	pem, err := os.ReadFile(o.CA)
	if err != nil {
		return nil, fail.Wrap(fail.Invalid, err, "read the authorities of clients").At(o.CA)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fail.New(fail.Invalid, "no certificate in PEM").At(o.CA)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS12}, nil
}

// Server answers the requests of the OCI distribution API that pull images.
type Server struct {
	o     Options
	index cache
}

// New returns a server.
func New(o Options) *Server { return &Server{o: o, index: cache{file: o.Index}} }

// resource is the path of a manifest, a blob or the list of tags.
var resource = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^/v2/([a-zA-Z0-9._:/-]+)/(manifests|blobs|tags)/([a-zA-Z0-9._:-]+)$`)
})

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if !s.admits(r) {
		refuse(w, http.StatusForbidden, "DENIED", "only machines of the cluster and its administrators may pull images here")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this registry is read-only: naupegos bundle add brings images")
		return
	}
	if r.URL.Path == "/v2/" || r.URL.Path == "/v2" {
		writeJSON(w, http.StatusOK, struct{}{})
		return
	}
	m := resource().FindStringSubmatch(r.URL.Path)
	if m == nil {
		refuse(w, http.StatusNotFound, "NOT_FOUND", "no such resource")
		return
	}
	index, err := s.index.get()
	if err != nil {
		s.o.Log.Error("read the index", "error", err)
		refuse(w, http.StatusInternalServerError, "UNKNOWN", "the index of images can't be read")
		return
	}
	name := m[1]
	if ns := r.URL.Query().Get("ns"); ns != "" { // containerd asks a mirror with the registry's name
		name = ns + "/" + name
	}
	images := index.named(name)
	switch {
	case len(images) == 0:
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN", "no image with this name")
	case m[2] == "tags":
		s.tags(w, name, images)
	default:
		s.content(w, r, images, m[2] == "manifests", m[3])
	}
}

// admits reports whether the client's certificate has one of the groups.
func (s *Server) admits(r *http.Request) bool {
	if len(s.o.Groups) == 0 {
		return true
	}
	return r.TLS != nil && len(r.TLS.PeerCertificates) > 0 && slices.ContainsFunc(r.TLS.PeerCertificates[0].Subject.Organization,
		func(o string) bool { return slices.Contains(s.o.Groups, o) })
}

func (s *Server) tags(w http.ResponseWriter, name string, images []Image) {
	tags := []string{}
	for _, i := range images {
		if i.Tag != "" {
			tags = append(tags, i.Tag)
		}
	}
	slices.Sort(tags)
	writeJSON(w, http.StatusOK, map[string]any{"name": name, "tags": slices.Compact(tags)})
}

var digestText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

// content sends a file of one of the images.
func (s *Server) content(w http.ResponseWriter, r *http.Request, images []Image, manifest bool, ref string) {
	digest := ref
	if manifest && !digestText().MatchString(ref) {
		i := slices.IndexFunc(images, func(i Image) bool { return i.Tag == ref })
		if i < 0 {
			refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "no image with this tag")
			return
		}
		digest = images[i].Digest
	}
	for _, i := range images {
		mediaType, ok := s.files(i)[digest]
		if !ok {
			continue
		}
		f, err := s.open(digest)
		if err != nil {
			s.o.Log.Error("open a file of an image", "image", i.Name, "digest", digest, "error", err)
			break
		}
		defer f.Close() // only read
		if !manifest {
			mediaType = "application/octet-stream"
		}
		w.Header().Set("Content-Type", mediaType)
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Etag", `"`+digest+`"`)
		http.ServeContent(w, r, "", time.Time{}, f)
		return
	}
	refuse(w, http.StatusNotFound, map[bool]string{true: "MANIFEST_UNKNOWN", false: "BLOB_UNKNOWN"}[manifest], "no such content")
}

// open opens a file by digest.
func (s *Server) open(digest string) (*os.File, error) {
	if !digestText().MatchString(digest) {
		return nil, errors.New("not a digest")
	}
	var errs []error
	for _, dir := range s.o.Blobs {
		f, err := os.Open(filepath.Join(dir, strings.TrimPrefix(digest, "sha256:")))
		if err == nil {
			return f, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]any{"errors": []map[string]string{{"code": code, "message": message}}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that disconnected gets no answer
}
