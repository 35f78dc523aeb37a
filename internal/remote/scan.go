package remote

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/naupegos/naupegos/internal/fail"
)

// scanTime bounds one request for a host key.
const scanTime = 15 * time.Second

// errScanned ends a handshake whose only purpose was the host key.
var errScanned = errors.New("only the host key was needed")

// ScanHostKey gets the host key of the SSH server at an address without logging in. It returns the key as in a .pub file and its SHA-256 fingerprint,
// which a person must compare, because a man in the middle can answer in the host's place.
func ScanHostKey(ctx context.Context, address string, port int) (line, fingerprint string, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	at := net.JoinHostPort(address, strconv.Itoa(port))
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return "", "", fail.Wrap(fail.Unreachable, err, "ask for the SSH host key").At(at)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	var found ssh.PublicKey
	_, _, _, err = ssh.NewClientConn(conn, at, &ssh.ClientConfig{
		User:              "naupegos",
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519, ssh.KeyAlgoECDSA256, ssh.KeyAlgoRSASHA512, ssh.KeyAlgoRSASHA256},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			found = key
			return errScanned
		},
	})
	if found == nil {
		return "", "", fail.Wrap(fail.Unreachable, err, "ask for the SSH host key").At(at).Do("check that an SSH server listens there")
	}
	return AuthorizedLine(found), ssh.FingerprintSHA256(found), nil
}
