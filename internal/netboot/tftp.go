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
	tftpTimeout   = time.Second // for the acknowledgement of a packet
	tftpRetries   = 5
	tftpTransfers = 256 // at a time
	tftpOfOne     = 16  // per client address, so that one client can't occupy all; firmware requests one file, and repeats impatiently
)

// autoexec is the script that iPXE requests from its own TFTP server. iPXE runs it in place of the file that DHCP names.
const autoexec = "autoexec.ipxe"

// tftpServer serves iPXE's programs and the script that leads to the boot endpoints, and nothing else. It accepts no files.
type tftpServer struct {
	*tftp.Server
	conn     *net.UDPConn
	programs *programs.Set
	script   []byte // autoexec.ipxe; nil: not served
	log      *slog.Logger
	mu       sync.Mutex
	running  map[string]int // number of running transfers by client address
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

// stop waits for the running transfers, which fail within seconds without acknowledgements.
func (s *tftpServer) stop() {
	s.Shutdown()
	s.conn.Close() // the server may have closed it already
}

// file returns the content that TFTP serves under a name.
func (s *tftpServer) file(name string) []byte {
	if plain(name) == autoexec {
		return s.script
	}
	return program(s.programs, name)
}

// program returns the program with a name.
func program(set *programs.Set, name string) []byte { return set.Get(plain(name)) }

// plain normalises a file name: firmware adds slashes, and some firmware a trailing byte.
func plain(name string) string {
	name = strings.ReplaceAll(name, `\`, "/")
	for name != "" && strings.IndexByte("\x00\xff ", name[len(name)-1]) >= 0 {
		name = name[:len(name)-1]
	}
	return strings.TrimPrefix(path.Clean("/"+name), "/")
}

var errAbsent = errors.New("file not found")

// begin reports whether an address may start another transfer. If so, the caller calls end afterwards.
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

// read serves a file.
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
	// UEFI requests the size first and then aborts.
	s.log.Debug("TFTP", "file", name, "from", from, "bytes", len(data), "ended", fmt.Sprint(err))
	return err
}
