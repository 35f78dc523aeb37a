package machine

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"

	"github.com/naupegos/naupegos/internal/fail"
)

// The kinds of user-data, as the document calls them.
const (
	KindCloudInit = "cloud-init"
	KindIgnition  = "ignition"
)

// MaxUserDataBytes is how much user-data Nova takes, counted after base64.
const MaxUserDataBytes = 65535

// Render renders user-data of a kind as a cloud should be given it: for cloud-init compressed, and in any case checked
// against the limit. An unknown kind, bad fields, or too much of them give fail.Invalid.
func (o UserData) Render(kind string) ([]byte, error) {
	var out []byte
	var err error
	switch kind {
	case KindCloudInit:
		if out, err = CloudInit(o); err == nil {
			out, err = Compress(out)
		}
	case KindIgnition:
		out, err = Ignition(o)
	default:
		err = fail.New(fail.Invalid, "unknown kind of user-data %q", kind).Do("known: %s, %s", KindCloudInit, KindIgnition)
	}
	if err != nil {
		return nil, err
	}
	return out, CheckUserDataSize(o.Hostname, out)
}

// Compress packs cloud-init user-data with gzip, which cloud-init unpacks by itself. The same input gives the same bytes.
func Compress(data []byte) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err == nil {
		_, err = z.Write(data)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "compress user-data")
	}
	return b.Bytes(), nil
}

// CheckUserDataSize refuses user-data that Nova would not take, with the lengths; data is as it is before base64.
func CheckUserDataSize(machine string, data []byte) error {
	if n := base64.StdEncoding.EncodedLen(len(data)); n > MaxUserDataBytes {
		return fail.New(fail.Invalid, "user-data has %d bytes in base64, %d more than clouds take (%d)", n, n-MaxUserDataBytes, MaxUserDataBytes).
			At(machine).Do("give fewer or shorter keys in spec.access.sshKeys")
	}
	return nil
}
