package openstack

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/provider"
)

// maxUserData is Nova's limit for user-data, in characters of base64.
const maxUserData = 65535

// encodeUserData writes user-data as Nova wants it; fail.Refused where it is too long.
func encodeUserData(m provider.MachineSpec) ([]byte, error) {
	text := base64.StdEncoding.EncodeToString(m.UserData)
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
