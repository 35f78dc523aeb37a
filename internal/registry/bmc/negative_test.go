//go:debug x509negativeserial=1

package bmc

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"math/big"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// odder makes a self-signed certificate, and signs it again after changing its content.
func odder(t *testing.T, change func(tbs []byte) []byte) tls.Certificate {
	t.Helper()
	key := testkit.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	serial := new(big.Int).SetBytes(bytes.Repeat([]byte{0x7f}, 16))
	der := testkit.Value(x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: serial, NotAfter: time.Now().Add(time.Hour)}, &x509.Certificate{SerialNumber: serial}, key.Public(), key))(t)
	var parts struct {
		TBS       asn1.RawValue
		Algorithm asn1.RawValue
		Signature asn1.BitString
	}
	testkit.Value(asn1.Unmarshal(der, &parts))(t)
	tbs := change(bytes.Clone(parts.TBS.FullBytes))
	sum := sha256.Sum256(tbs)
	signature := testkit.Value(ecdsa.SignASN1(rand.Reader, key, sum[:]))(t)
	parts.TBS, parts.Signature = asn1.RawValue{FullBytes: tbs}, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}
	return tls.Certificate{Certificate: [][]byte{testkit.Value(asn1.Marshal(parts))(t)}, PrivateKey: key}
}

// TestNegativeSerial: a BMC's certificate with a negative serial number, which RFC 5280 forbids and some BMCs have, can be pinned like any other. The
// error for malformed data says that it is not a certificate.
func TestNegativeSerial(t *testing.T) {
	serial := bytes.Repeat([]byte{0x7f}, 16)
	for _, first := range []byte{0x80, 0xff, 0xa5} {
		cert := odder(t, func(tbs []byte) []byte {
			return bytes.Replace(tbs, serial, append([]byte{first}, serial[1:]...), 1)
		})
		f, a := serve(t, odd{tls: &tls.Config{Certificates: []tls.Certificate{cert}}}) // the usual versions
		if on, err := (Controllers{}).Power(t.Context(), a, "on", AsUsual); err != nil || !on || f.told() != "On" {
			t.Errorf("%#x: %v, %v", first, on, err)
		}
	}
	err := Access{}.refused(errParse{}, "x")
	testkit.Fails(t, err, fail.Unreachable, "certificate is malformed")
}

// errParse is crypto/tls's text for a malformed certificate.
type errParse struct{}

func (errParse) Error() string {
	return "tls: failed to parse certificate from server: x509: malformed tbs certificate"
}
