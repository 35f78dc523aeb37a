package machine

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"

	"github.com/coreos/ignition/v2/config/v3_4/types"

	"github.com/naupegos/naupegos/internal/fail"
)

// The kinds of user-data, as the document calls them.
const (
	KindCloudInit = "cloud-init"
	KindIgnition  = "ignition"
)

// Render renders user-data of a kind in the form for a cloud: compressed. It returns fail.Invalid for an unknown kind or invalid fields. The same
// input gives the same bytes.
func (o UserData) Render(kind string) ([]byte, error) {
	switch kind {
	case KindCloudInit: // cloud-init unpacks it by itself
		out, err := CloudInit(o)
		if err != nil {
			return nil, err
		}
		return compress(out)
	case KindIgnition:
		out, err := Ignition(o)
		if err != nil {
			return nil, err
		}
		return packIgnition(out)
	}
	return nil, fail.New(fail.Invalid, "unknown kind of user-data %q", kind).Do("known: %s, %s", KindCloudInit, KindIgnition)
}

// packIgnition returns a configuration that only tells Ignition to use the given, compressed one instead. This is the only compressed content that
// Ignition accepts from a cloud.
func packIgnition(config []byte) ([]byte, error) {
	packed, err := compress(config)
	if err != nil {
		return nil, err
	}
	source, how := "data:;base64,"+base64.StdEncoding.EncodeToString(packed), "gzip"
	c := types.Config{Ignition: types.Ignition{
		Version: types.MaxVersion.String(),
		Config:  types.IgnitionConfig{Replace: types.Resource{Source: &source, Compression: &how}},
	}}
	out, err := json.Marshal(c)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "write the Ignition configuration")
	}
	return out, nil
}

func compress(data []byte) ([]byte, error) {
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
