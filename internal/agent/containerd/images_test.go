package containerd_test

import (
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/agent/containerd"
	"github.com/naupegos/naupegos/internal/agent/containerd/containerdtest"
	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// listen returns a listener on a socket with a short path.
func listen(t *testing.T) (net.Listener, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "nau")
	testkit.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, socket
}

func TestImages(t *testing.T) {
	l, socket := listen(t)
	want := map[string]string{}
	for i := range 300 { // more than a frame of HTTP/2
		want["registry.k8s.io/pause:"+strings.Repeat("x", i)] = "sha256:" + strings.Repeat("ab", 32)
	}
	var refuse error
	go func() {
		_ = containerdtest.Serve(l, func(namespace string) (map[string]string, error) {
			if namespace != "k8s.io" {
				return nil, nil
			}
			return want, refuse
		})
	}()
	got, err := containerd.Images(t.Context(), socket, "k8s.io")
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%d images: %v", len(got), err)
	}
	if got, err = containerd.Images(t.Context(), socket, "moby"); err != nil || len(got) != 0 {
		t.Errorf("%d images: %v", len(got), err)
	}
	refuse = errors.New("the store is closed")
	_, err = containerd.Images(t.Context(), socket, "k8s.io")
	testkit.Fails(t, err, fail.Internal, socket, `status "2"`, "the store is closed")
	testkit.Must(t, l.Close())
	_, err = containerd.Images(t.Context(), socket, "k8s.io")
	testkit.Fails(t, err, fail.Unreachable, socket)
}

// TestStrangeAnswers: an answer that is not containerd's is an error, not a list of images.
func TestStrangeAnswers(t *testing.T) {
	framed := func(message string) string {
		return string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message)))) + message
	}
	whole := string(containerdtest.Message(map[string]string{"a": "sha256:b"}))
	for name, tc := range map[string]struct{ body, want string }{
		"nothing":        {"", "not one plain message"},
		"compressed":     {"\x01" + framed(whole)[1:], "not one plain message"},
		"cut":            {framed(whole)[:20], "not one plain message"},
		"two":            {framed(whole) + framed(whole), "not one plain message"},
		"field cut":      {framed(whole[:len(whole)-1]), "cut off"},
		"endless number": {framed(strings.Repeat("\xff", 20)), "cut off"},
		"length too big": {framed("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), "cut off"},
		"unknown type":   {framed("\x0b"), "unknown type 3"},
	} {
		t.Run(name, func(t *testing.T) {
			l, socket := listen(t)
			var protocols http.Protocols
			protocols.SetUnencryptedHTTP2(true)
			s := http.Server{Protocols: &protocols, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
				if tc.body == "" {
					w.Header().Set("Grpc-Status", "0")
				}
				_, _ = io.WriteString(w, tc.body)
			})}
			go func() { _ = s.Serve(l) }()
			_, err := containerd.Images(t.Context(), socket, "k8s.io")
			testkit.Fails(t, err, fail.Internal, socket, tc.want)
		})
	}
	t.Run("another protocol", func(t *testing.T) {
		l, socket := listen(t)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n")
				_ = c.SetReadDeadline(time.Now().Add(time.Second))
				_, _ = io.Copy(io.Discard, c)
				_ = c.Close()
			}
		}()
		if got, err := containerd.Images(t.Context(), socket, "k8s.io"); err == nil {
			t.Errorf("images %v", got)
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add(containerdtest.Message(map[string]string{"a": "sha256:b", "c": "sha256:d"}))
	f.Fuzz(func(_ *testing.T, message []byte) { _, _ = containerd.ReadImages(message) })
}
