package autoscale

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/naupegos/naupegos/internal/autoscale/externalgrpc"
	"github.com/naupegos/naupegos/internal/fail"
)

// Identity is the server's certificate and the one client that it admits.
type Identity struct {
	Cert, Key []byte // PEM
	CA        []byte // the authorities of clients, PEM
	Client    string // the common name that a client's certificate must have
}

// handshake bounds the time in which a client must authenticate. A stop waits for handshakes under way.
const handshake = 10 * time.Second

// Serve serves on a listener until the context is done. Then it waits up to drain for calls to end (0: without limit) and cuts off the rest. It calls
// identity for each connection.
func Serve(ctx context.Context, l net.Listener, pools Pools, identity func() (Identity, error), drain time.Duration) error {
	base := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			id, err := identity()
			if err != nil {
				return nil, err
			}
			return id.config()
		},
	}
	server := grpc.NewServer(grpc.Creds(credentials.NewTLS(base)), grpc.ConnectionTimeout(handshake))
	externalgrpc.RegisterCloudProviderServer(server, &service{pools: pools})
	unwatched := context.AfterFunc(ctx, func() {
		if drain > 0 {
			defer time.AfterFunc(drain, server.Stop).Stop()
		}
		server.GracefulStop()
	})
	defer unwatched()
	if err := server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fail.Wrap(fail.Internal, err, "serve at %s", l.Addr())
	}
	return nil
}

// config returns a TLS configuration that admits only the client with a certificate for i.Client.
func (i Identity) config() (*tls.Config, error) {
	pair, err := tls.X509KeyPair(i.Cert, i.Key)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read the server's certificate")
	}
	authorities := x509.NewCertPool()
	if !authorities.AppendCertsFromPEM(i.CA) {
		return nil, fail.New(fail.Internal, "there is no authority of clients")
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{pair},
		ClientCAs: authorities, ClientAuth: tls.RequireAndVerifyClientCert,
		SessionTicketsDisabled: true, // so that each connection is verified
		VerifyConnection: func(s tls.ConnectionState) error {
			if name := s.PeerCertificates[0].Subject.CommonName; name != i.Client {
				return fail.New(fail.Unauthorized, "%q is not the autoscaler", name)
			}
			return nil
		},
	}, nil
}
