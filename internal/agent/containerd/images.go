// Package containerd asks containerd on this machine for its images. containerd's own client takes longer to start than containerd takes to answer.
//
// It speaks the one call of containerd's API that it needs (gRPC over HTTP/2), and knows nothing of machines' configurations.
package containerd

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/naupegos/naupegos/internal/fail"
)

// ListMethod is the path of the call (containerd.services.images.v1).
const ListMethod = "/containerd.services.images.v1.Images/List"

// NamespaceHeader names the namespace of a call.
const NamespaceHeader = "containerd-namespace"

// maxAnswer bounds containerd's answer. An image takes less than a KiB.
const maxAnswer = 64 << 20

// Images returns the digests of the images in a namespace of the containerd that listens on a socket, by reference.
func Images(ctx context.Context, socket, namespace string) (map[string]string, error) {
	message, err := call(ctx, socket, namespace, ListMethod)
	if err != nil {
		return nil, fail.Wrap(fail.KindOf(err), err, "ask containerd for its images").At(socket)
	}
	known, err := ReadImages(message)
	if err != nil {
		return nil, fail.Wrap(fail.Internal, err, "read containerd's list of images").At(socket)
	}
	return known, nil
}

// call sends an empty message, and returns the message of the answer.
func call(ctx context.Context, socket, namespace, method string) ([]byte, error) {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: &protocols, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+method, bytes.NewReader(make([]byte, prefix)))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	req.Header.Set(NamespaceHeader, namespace)
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "reach containerd")
	}
	defer func() { _ = resp.Body.Close() }() // read to the end, or abandoned
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, fail.Wrap(fail.Unreachable, err, "read the answer")
	}
	if len(data) > maxAnswer {
		return nil, fmt.Errorf("it says more than %d MiB", maxAnswer>>20)
	}
	status := resp.Trailer
	if status.Get("Grpc-Status") == "" { // an error may come in the headers alone
		status = resp.Header
	}
	if code := status.Get("Grpc-Status"); code != "0" {
		said, err := url.PathUnescape(status.Get("Grpc-Message"))
		if err != nil {
			said = status.Get("Grpc-Message")
		}
		return nil, fmt.Errorf("status %q: %.200q", code, said)
	}
	return unframed(data)
}

// prefix is the length of a message's header: a compression flag and the message's length.
const prefix = 5

// unframed returns the only message of an answer.
func unframed(data []byte) ([]byte, error) {
	if len(data) < prefix || data[0] != 0 || uint64(binary.BigEndian.Uint32(data[1:prefix])) != uint64(len(data)-prefix) {
		return nil, errors.New("the answer is not one plain message of gRPC")
	}
	return data[prefix:], nil
}

// Field numbers of ListImagesResponse, Image and Descriptor.
const (
	responseImages   = 1
	imageName        = 1
	imageTarget      = 3
	descriptorDigest = 2
)

// ReadImages reads a ListImagesResponse: digests by reference.
func ReadImages(message []byte) (map[string]string, error) {
	known := map[string]string{}
	err := fields(message, func(number uint64, image []byte) error {
		if number != responseImages {
			return nil
		}
		var name, digest string
		err := fields(image, func(number uint64, value []byte) error {
			switch number {
			case imageName:
				name = string(value)
			case imageTarget:
				return fields(value, func(number uint64, value []byte) error {
					if number == descriptorDigest {
						digest = string(value)
					}
					return nil
				})
			}
			return nil
		})
		known[name] = digest
		return err
	})
	return known, err
}

var errCut = errors.New("a field is cut off")

// fields calls do with each length-delimited field of a protobuf message (strings and messages). It skips numbers.
func fields(message []byte, do func(number uint64, value []byte) error) error {
	for len(message) > 0 {
		tag, n := binary.Uvarint(message)
		if n <= 0 {
			return errCut
		}
		message = message[n:]
		size := uint64(0) // of the value
		switch kind := tag & 7; kind {
		case 0: // a number
			if _, n = binary.Uvarint(message); n <= 0 {
				return errCut
			}
			size = uint64(n)
		case 1:
			size = 8
		case 5:
			size = 4
		case 2:
			if size, n = binary.Uvarint(message); n <= 0 {
				return errCut
			}
			message = message[n:]
		default:
			return fmt.Errorf("a field has the unknown type %d", kind)
		}
		if size > uint64(len(message)) {
			return errCut
		}
		if tag&7 == 2 {
			if err := do(tag>>3, message[:size]); err != nil {
				return err
			}
		}
		message = message[size:]
	}
	return nil
}
