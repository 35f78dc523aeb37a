package files

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Digest returns the SHA-256 of parts, each terminated by a null byte, in hexadecimal.
func Digest(parts ...string) string {
	h := sha256.Sum256([]byte(strings.Join(parts, "\x00") + "\x00"))
	return hex.EncodeToString(h[:])
}
