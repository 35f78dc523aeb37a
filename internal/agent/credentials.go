package agent

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/machine"
)

// podsDir is kubelet's directory for the volumes of pods.
const podsDir = "/var/lib/kubelet/pods"

// Credentials lists the credentials that kubelet has given to pods on this machine. It reads only the headers of tokens, which are not secret.
func (a *Agent) Credentials() ([]machine.Credential, error) {
	tokens, err := filepath.Glob(filepath.Join(a.path(podsDir), "*", "volumes", "kubernetes.io~projected", "*", "token"))
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "look for tokens of pods")
	}
	list := []machine.Credential{}
	for _, path := range tokens {
		dir := filepath.Dir(path)
		c := machine.Credential{Volume: filepath.Base(dir), Pod: filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(dir))))}
		token, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the pod has just been removed
		}
		if err == nil {
			c.KeyID, err = keyIDOf(token)
		}
		if err != nil {
			return nil, fail.Wrap(fail.Internal, err, "read the header of a pod's token").At(c.Pod)
		}
		roots, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fail.Wrap(fail.Internal, err, "read which authorities a pod is given").At(c.Pod)
		}
		for b, rest := pem.Decode(roots); b != nil; b, rest = pem.Decode(rest) {
			sum := sha256.Sum256(b.Bytes)
			c.Authorities = append(c.Authorities, hex.EncodeToString(sum[:]))
		}
		list = append(list, c)
	}
	return list, nil
}

// keyIDOf returns the ID of the key that signed a token. Its error contains no part of the token.
func keyIDOf(token []byte) (string, error) {
	head, _, ok := bytes.Cut(bytes.TrimSpace(token), []byte("."))
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(string(head), "="))
	var header struct {
		KeyID string `json:"kid"`
	}
	if !ok || err != nil || json.Unmarshal(data, &header) != nil {
		return "", errors.New("it is no JSON web token")
	}
	return header.KeyID, nil
}
