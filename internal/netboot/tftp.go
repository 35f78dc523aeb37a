package netboot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/pin/tftp/v3"

	"github.com/naupegos/naupegos/internal/netboot/programs"
)

const (
	tftpTimeout   = time.Second // of a packet that is not acknowledged
	tftpRetries   = 5
	tftpTransfers = 256 // at a time
	tftpOfOne     = 16  // of them from one address, so that nobody takes all; firmware asks for one file, and again when it is impatient
)

// autoexec is the script that iPXE requests from its own TFTP server. iPXE runs it in place of the file that DHCP names.
const autoexec = "autoexec.ipxe"

// tftpServer gives out iPXE's programs and the script that leads to the boot endpoints, and nothing else. It takes nothing.
type tftpServer struct {
	*tftp.Server
	conn     *net.UDPConn
	programs *programs.Set
	script   []byte // autoexec.ipxe; nil: there is none
	log      *slog.Logger
	mu       sync.Mutex
	running  map[string]int // transfers by address
	all      int
}

func newTFTP(conn *net.UDPConn, set *programs.Set, script string, log *slog.Logger) *tftpServer {
	s := &tftpServer{conn: conn, programs: set, script: fmt.Appendf(nil, "#!ipxe\nchain %s\n", script), log: log, running: map[string]int{}}
	s.Server = tftp.NewServer(s.read, nil)
	s.SetTimeout(tftpTimeout)
	s.SetRetries(tftpRetries)
	return s
}

func (s *tftpServer) serve() error { return s.Serve(s.conn) }

// stop waits for the transfers that run, which have a few seconds at most without an acknowledgement.
func (s *tftpServer) stop() {
	s.Shutdown()
	s.conn.Close() //nolint:errcheck // it is closed already where it was served
}

// file returns the content that TFTP serves under a name.
func (s *tftpServer) file(name string) []byte {
	if plain(name) == autoexec {
		return s.script
	}
	return program(s.programs, name)
}

// program returns the program of a name.
func program(set *programs.Set, name string) []byte { return set.Get(plain(name)) }

// plain is a name however it is written: firmware adds slashes, and some a trailing byte.
func plain(name string) string {
	name = strings.ReplaceAll(name, `\`, "/")
	for name != "" && strings.IndexByte("\x00\xff ", name[len(name)-1]) >= 0 {
		name = name[:len(name)-1]
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

var errAbsent = errors.New("file not found")

// begin reports whether one more transfer to an address may run; end follows it where it may.
func (s *tftpServer) begin(address string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= tftpTransfers || s.running[address] >= tftpOfOne {
		return false
	}
	s.all++
	s.running[address]++
	return true
}

func (s *tftpServer) end(address string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.running[address]--; s.running[address] == 0 {
		delete(s.running, address)
	}
}

// read answers a request for a file.
func (s *tftpServer) read(name string, to io.ReaderFrom) error {
	data := s.file(name)
	from, address := "", ""
	if t, ok := to.(tftp.OutgoingTransfer); ok {
		t.SetSize(int64(len(data)))
		addr := t.RemoteAddr()
		from, address = addr.String(), addr.IP.String()
	}
	if !s.begin(address) {
		return errors.New("too many transfers, try again")
	}
	defer s.end(address)
	if data == nil {
		s.log.Info("TFTP: there is no such file", "file", fmt.Sprintf("%.100q", name), "from", from)
		return errAbsent
	}
	_, err := to.ReadFrom(bytes.NewReader(data))
	// UEFI asks for the size first, and then aborts.
	s.log.Debug("TFTP", "file", name, "from", from, "bytes", len(data), "ended", fmt.Sprint(err))
	return err
}
