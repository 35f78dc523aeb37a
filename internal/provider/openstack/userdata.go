package openstack

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/naupegos/naupegos/api/v1alpha1"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// maxUserData is Nova's limit for user-data, in characters of base64.
const maxUserData = 65535

// packUserData is what Nova is given: compressed for cloud-init, which unpacks it, where that is shorter. Ignition reads it as it is.
func packUserData(data []byte, kind string) ([]byte, error) {
	if kind != v1alpha1.UserDataCloudInit {
		return data, nil
	}
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "compress user-data")
	}
	if _, err := w.Write(data); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "compress user-data")
	}
	if err := w.Close(); err != nil {
		return nil, fail.Wrap(fail.Internal, err, "compress user-data")
	}
	if b.Len() >= len(data) {
		return data, nil
	}
	return b.Bytes(), nil
}

// encodeUserData packs user-data and writes it as Nova wants it; fail.Refused where it is too long.
func encodeUserData(m provider.MachineSpec, kind string) ([]byte, error) {
	packed, err := packUserData(m.UserData, kind)
	if err != nil {
		return nil, err
	}
	text := base64.StdEncoding.EncodeToString(packed)
	if len(text) > maxUserData {
		return nil, fail.New(fail.Refused, "its user-data is %d characters long in base64, OpenStack takes at most %d", len(text), maxUserData).
			At(m.Name).Do("give fewer keys in spec.access.sshKeys")
	}
	return []byte(text), nil
}

func shortDigest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:16])
}
