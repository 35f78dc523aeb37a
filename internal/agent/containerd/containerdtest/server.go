// Package containerdtest is a fake containerd for tests that need only its list of images.
package containerdtest

import (
	"encoding/binary"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/naupegos/naupegos/internal/agent/containerd"
)

// Serve answers on l, until l is closed, with the images of a namespace by reference; an error becomes the call's error.
func Serve(l net.Listener, images func(namespace string) (map[string]string, error)) error {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	s := http.Server{Protocols: &protocols, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		status := func(code int, text string) {
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(code))
			w.Header().Set(http.TrailerPrefix+"Grpc-Message", text)
		}
		const unknown, unimplemented = 2, 12
		if r.URL.Path != containerd.ListMethod || r.Header.Get("Content-Type") != "application/grpc" || r.Header.Get("TE") != "trailers" {
			status(unimplemented, "unknown call")
			return
		}
		known, err := images(r.Header.Get(containerd.NamespaceHeader))
		if err != nil {
			status(unknown, err.Error())
			return
		}
		message := Message(known)
		frame := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))
		if _, err := w.Write(append(frame, message...)); err != nil {
			return // the client has gone
		}
		status(0, "")
	})}
	return s.Serve(l)
}

// Message writes images by reference as containerd lists them.
func Message(images map[string]string) []byte {
	var out []byte
	for name, digest := range images {
		target := field(field(nil, 1, []byte("application/vnd.oci.image.manifest.v1+json")), 2, []byte(digest))
		target = append(target, 3<<3, 0x80, 0x08) // its size, 1024
		label := field(field(nil, 1, []byte("io.cri-containerd.image")), 2, []byte("managed"))
		out = field(out, 1, field(field(field(nil, 1, []byte(name)), 2, label), 3, target))
	}
	return out
}

func field(to []byte, number byte, value []byte) []byte {
	return append(binary.AppendUvarint(append(to, number<<3|2), uint64(len(value))), value...)
}
