// Package redfishtest is a Redfish service for tests: one BMC with its machines, according to DMTF's schemas (ServiceRoot 1.15, ComputerSystem 1.20,
// SessionService 1.1, Task 1.7), with the peculiarities of real ones. It does not know its clients.
package redfishtest

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Machine is a machine that the service switches.
type Machine interface {
	// On reports whether the machine is on.
	On() bool
	// Reset performs a Redfish ResetType; from is the boot target set for the next boot (Pxe, Hdd), or empty.
	Reset(kind, from string) error
}

// Options are the peculiarities of a service.
type Options struct {
	User, Password string
	Machines       map[string]string // UUIDs by ID; empty: one, System.1
	Resets         []string          // offered ResetTypes; empty: not reported
	AsInfo         bool              // reported in a separate ActionInfo
	Targets        []string          // supported boot targets; empty: not reported
	Tasks          bool              // a reset is answered with a Task, which takes some reads
	FailTasks      bool              // which end as Exception
	Sessions       int               // maximum number of sessions; 0: one
	Settings       bool              // the boot source is in a Settings resource, and can't be changed elsewhere
	Elsewhere      string            // reported target of a machine's action, in place of its own path
}

// Service is a BMC.
type Service struct {
	*httptest.Server
	o Options

	mu       sync.Mutex
	machine  Machine
	sessions map[string]string // ID by token
	made     int
	busy     int // number of requests to answer with 503
	retry    string
	version  int               // of the machines' resources: their ETag
	stale    int               // changes by another client, between a read and a write
	from     map[string]string // the machines' next boot targets, by ID
	tasks    map[string]int    // remaining reads until a task ends
	seen     []string
}

// Start starts a service, which ends with the test.
func Start(t testing.TB, m Machine, o Options) *Service {
	t.Helper()
	if len(o.Machines) == 0 {
		o.Machines = map[string]string{"System.1": ""}
	}
	s := &Service{o: o, machine: m, sessions: map[string]string{}, from: map[string]string{}, tasks: map[string]int{}, version: 1}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /redfish/v1/{$}", s.root)
	mux.HandleFunc("GET /redfish/v1", s.root)
	mux.HandleFunc("POST /redfish/v1/SessionService/Sessions", s.logIn)
	for pattern, h := range map[string]http.HandlerFunc{
		"DELETE /redfish/v1/SessionService/Sessions/{id}":            s.logOut,
		"GET /redfish/v1/Systems":                                    s.systems,
		"GET /redfish/v1/Systems/{id}":                               s.system,
		"PATCH /redfish/v1/Systems/{id}":                             s.patch,
		"GET /redfish/v1/Systems/{id}/Settings":                      s.settings,
		"PATCH /redfish/v1/Systems/{id}/Settings":                    s.patchSettings,
		"GET /redfish/v1/Systems/{id}/ResetActionInfo":               s.info,
		"POST /redfish/v1/Systems/{id}/Actions/ComputerSystem.Reset": s.reset,
		"GET /redfish/v1/TaskService/TaskMonitors/{id}":              s.monitor,
	} {
		mux.HandleFunc(pattern, s.known(h))
	}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.seen = append(s.seen, r.Method+" "+r.URL.Path)
		if s.busy > 0 {
			s.busy--
			w.Header().Set("Retry-After", s.retry)
			refuse(w, http.StatusServiceUnavailable, "Base.1.18.ServiceTemporarilyUnavailable", "The service is temporarily unavailable.")
			return
		}
		w.Header().Set("OData-Version", "4.0")
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// Address is HOST:PORT.
func (s *Service) Address() string { return strings.TrimPrefix(s.URL, "https://") }

// Fingerprint returns the fingerprint of the service's certificate.
func (s *Service) Fingerprint() string {
	sum := sha256.Sum256(s.Certificate().Raw)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Authorities returns the authority of the service's certificate, as PEM.
func (s *Service) Authorities() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
}

// Busy makes the service answer the next requests with 503 and Retry-After.
func (s *Service) Busy(requests int, retryAfter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.retry = requests, retryAfter
}

// Stale simulates another client that changes the machines before the next writes.
func (s *Service) Stale(writes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stale = writes
}

// Open returns the number of open sessions.
func (s *Service) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Seen returns the requests since its last call.
func (s *Service) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.seen
	s.seen = nil
	return seen
}

type object map[string]any

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refuse answers with a Redfish error response.
func refuse(w http.ResponseWriter, status int, id, text string) {
	answer(w, status, object{"error": object{"code": id, "message": text, "@Message.ExtendedInfo": []object{{"MessageId": id, "Message": text, "Severity": "Critical"}}}})
}

// known accepts requests of open sessions.
func (s *Service) known(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := s.sessions[r.Header.Get("X-Auth-Token")]; !ok {
			refuse(w, http.StatusUnauthorized, "Base.1.18.NoValidSession", "There is no valid session established with the implementation.")
			return
		}
		if id := r.PathValue("id"); strings.HasPrefix(r.URL.Path, "/redfish/v1/Systems/") {
			if _, ok := s.o.Machines[id]; !ok {
				refuse(w, http.StatusNotFound, "Base.1.18.ResourceMissingAtURI", "The resource was not found.")
				return
			}
		}
		h(w, r)
	}
}

func (s *Service) root(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, object{"@odata.id": "/redfish/v1/", "@odata.type": "#ServiceRoot.v1_15_0.ServiceRoot", "Id": "RootService", "Name": "Root Service",
		"RedfishVersion": "1.18.0", "Systems": object{"@odata.id": "/redfish/v1/Systems"}, "SessionService": object{"@odata.id": "/redfish/v1/SessionService"},
		"Links": object{"Sessions": object{"@odata.id": "/redfish/v1/SessionService/Sessions"}}})
}

func (s *Service) logIn(w http.ResponseWriter, r *http.Request) {
	var who struct{ UserName, Password string }
	if json.NewDecoder(r.Body).Decode(&who) != nil || who.UserName != s.o.User || subtle.ConstantTimeCompare([]byte(who.Password), []byte(s.o.Password)) != 1 {
		// Some services repeat the request.
		refuse(w, http.StatusUnauthorized, "Base.1.18.ResourceAtUriUnauthorized", fmt.Sprintf("%s with password %s is not known.", who.UserName, who.Password))
		return
	}
	if len(s.sessions) >= max(s.o.Sessions, 1) {
		refuse(w, http.StatusBadRequest, "Base.1.18.SessionLimitExceeded", "The session establishment failed due to the number of simultaneous sessions.")
		return
	}
	s.made++
	id, token := fmt.Sprint(s.made), fmt.Sprintf("token-%d", s.made)
	s.sessions[token] = id
	at := "/redfish/v1/SessionService/Sessions/" + id
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", s.URL+at)
	answer(w, http.StatusCreated, object{"@odata.id": at, "@odata.type": "#Session.v1_7_0.Session", "Id": id, "Name": "User Session", "UserName": who.UserName})
}

func (s *Service) logOut(w http.ResponseWriter, r *http.Request) {
	for token, id := range s.sessions {
		if id == r.PathValue("id") {
			delete(s.sessions, token)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (s *Service) systems(w http.ResponseWriter, _ *http.Request) {
	var members []object
	for id := range s.o.Machines {
		members = append(members, object{"@odata.id": "/redfish/v1/Systems/" + id})
	}
	slices.SortFunc(members, func(a, b object) int { return strings.Compare(a["@odata.id"].(string), b["@odata.id"].(string)) })
	answer(w, http.StatusOK, object{"@odata.id": "/redfish/v1/Systems", "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection", "Name": "Systems",
		"Members": members, "Members@odata.count": len(members)})
}
