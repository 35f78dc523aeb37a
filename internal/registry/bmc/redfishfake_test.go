package bmc

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/naupegos/naupegos/internal/testkit"
)

// odd is a BMC with the peculiarities of one vendor.
type odd struct {
	root      string                                             // body; empty: the default
	rootCode  int                                                // status of the root without a login
	sessions  func(f *fake) (int, string)                        // answers a login; nil: accept it
	asks      string                                             // WWW-Authenticate of a 401
	noBasic   bool                                               // refuses passwords in requests
	system    string                                             // body with %s for the power state as JSON and %s for the boot override's mode
	at        string                                             // its path
	members   []string                                           // others, which answer with otherCode
	other     int                                                // their status
	states    []string                                           // PowerState as JSON, one for each read; the last stays. nil: On or Off, like the machine
	etag      string                                             // of the header
	match     func(ifMatch string) int                           // status for a PATCH; 0: success
	rematch   func(ifMatch string) int                           // status for a reset; 0: success
	patch     func(f *fake, at string, boot map[string]any) int  // status; nil: success
	keep      func(f *fake, at string, boot map[string]any) bool // whether an accepted PATCH takes effect; nil: it does
	patchAs   func(w http.ResponseWriter)                        // answers an accepted PATCH; nil: 204
	resetAs   func(w http.ResponseWriter)                        // answers a reset; nil: 204
	info      string                                             // body of the ActionInfo
	elsewhere map[string]string                                  // further bodies by path
	tls       *tls.Config                                        // nil: the default
	moved     func(path string) (code int, to string)            // redirects a path; code 0: it does not
}

// fake serves an odd BMC.
type fake struct {
	odd
	mu     sync.Mutex
	on     bool
	boot   map[string]any
	did    []string // resets
	seen   []string
	open   int
	logins int
	basics int // requests with a password
	looks  int
}

const usualRoot = `{"@odata.id":"/redfish/v1/","Id":"RootService","RedfishVersion":"1.6.0","Systems":{"@odata.id":"/redfish/v1/Systems"},
"SessionService":{"@odata.id":"/redfish/v1/SessionService"},"Links":{"Sessions":{"@odata.id":"/redfish/v1/SessionService/Sessions"}}}`

const usualSystem = `{"@odata.id":"/redfish/v1/Systems/1","Id":"1","UUID":"00112233-4455-6677-8899-AABBCCDDEEFF","PowerState":%s,
"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None","BootSourceOverrideMode":%s,
"BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Hdd"]},
"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
"ResetType@Redfish.AllowableValues":["On","ForceOff","GracefulShutdown","ForceRestart","PowerCycle"]}}}`

// serve starts an odd BMC whose machine is off.
func serve(t *testing.T, o odd) (*fake, Access) {
	t.Helper()
	f := &fake{odd: o, boot: map[string]any{"BootSourceOverrideMode": "UEFI"}}
	if f.system == "" {
		f.system = usualSystem
	}
	if f.at == "" {
		f.at = "/redfish/v1/Systems/1"
	}
	s := httptest.NewUnstartedServer(f)
	s.TLS = o.tls
	s.StartTLS()
	t.Cleanup(s.Close)
	sum := sha256.Sum256(s.Certificate().Raw)
	return f, Access{Protocol: ProtocolRedfish, Address: strings.TrimPrefix(s.URL, "https://"), User: "admin", Password: []byte(testkit.Secret),
		Fingerprint: "sha256:" + hex.EncodeToString(sum[:]), UUID: uuid}
}

// ServeHTTP answers like the BMC.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("If-Match")))
	if f.moved != nil {
		if code, to := f.moved(r.URL.Path); code != 0 {
			if to != "" {
				w.Header().Set("Location", to)
			}
			w.WriteHeader(code)
			return
		}
	}
	user, password, basic := r.BasicAuth()
	if basic {
		f.basics++
	}
	if f.asks != "" {
		w.Header().Set("WWW-Authenticate", f.asks) // valid only with a 401
	}
	known := r.Header.Get("X-Auth-Token") == "token" && f.open > 0 || basic && !f.noBasic && user == "admin" && password == testkit.Secret
	switch p := strings.TrimSuffix(r.URL.Path, "/"); {
	case p == "/redfish/v1":
		if f.rootCode != 0 && !known {
			say(w, f.rootCode, "")
			return
		}
		say(w, 200, or(f.root, usualRoot))
	case strings.HasSuffix(p, "/Sessions") && r.Method == http.MethodPost:
		f.logIn(w, r)
	case !known:
		say(w, 401, oddError("There is no valid session established with the implementation."))
	case r.Method == http.MethodDelete:
		f.open--
		w.WriteHeader(http.StatusNoContent)
	case p == "/redfish/v1/Systems":
		f.list(w)
	case p == strings.TrimSuffix(f.at, "/") && r.Method == http.MethodGet:
		f.show(w)
	case r.Method == http.MethodPatch:
		f.change(w, r)
	case strings.HasSuffix(p, "/Actions/ComputerSystem.Reset"):
		f.reset(w, r)
	case strings.HasSuffix(p, "/ResetActionInfo") && f.info != "":
		say(w, 200, f.info)
	case f.elsewhere[p] != "":
		say(w, 200, f.elsewhere[p])
	case slices.ContainsFunc(f.members, func(m string) bool { return strings.HasSuffix(p, "/"+m) }):
		say(w, f.other, oddError("gone"))
	default:
		say(w, 404, oddError("The resource was not found."))
	}
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func say(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

func oddError(text string) string {
	return fmt.Sprintf(`{"error":{"code":"Base.1.8.GeneralError","message":%q,"@Message.ExtendedInfo":[{"MessageId":"Base.1.8.GeneralError","Message":%q}]}}`, text, text)
}

func (f *fake) logIn(w http.ResponseWriter, r *http.Request) {
	f.logins++
	var who struct{ UserName, Password string }
	wrong := json.NewDecoder(r.Body).Decode(&who) != nil || who.UserName != "admin" || who.Password != testkit.Secret
	if f.sessions != nil {
		if code, body := f.sessions(f); code != 0 {
			say(w, code, body)
			return
		}
	}
	if wrong {
		say(w, 401, oddError("The user or password "+who.Password+" is wrong."))
		return
	}
	f.open++
	w.Header().Set("X-Auth-Token", "token")
	w.Header().Set("Location", "https://192.0.2.1/redfish/v1/SessionService/Sessions/1") // as behind NAT
	say(w, 201, `{"@odata.id":"/redfish/v1/SessionService/Sessions/1","Id":"1"}`)
}

func (f *fake) list(w http.ResponseWriter) {
	members := ""
	for _, m := range f.members {
		members += fmt.Sprintf(`{"@odata.id":"/redfish/v1/Systems/%s"},`, m)
	}
	say(w, 200, fmt.Sprintf(`{"@odata.id":"/redfish/v1/Systems","Members":[%s{"@odata.id":%q}],"Members@odata.count":"%d"}`, members, f.at, len(f.members)+1))
}

func (f *fake) show(w http.ResponseWriter) {
	f.looks++
	state := `"Off"`
	if f.on {
		state = `"On"`
	}
	if len(f.states) > 0 {
		state = f.states[min(f.looks, len(f.states))-1]
	}
	mode, _ := json.Marshal(f.boot["BootSourceOverrideMode"]) //nolint:errchkjson // a text
	if f.etag != "" {
		w.Header().Set("ETag", f.etag)
	}
	body := f.system
	body = strings.Replace(body, "%s", state, 1)
	for _, name := range []string{"BootSourceOverrideTarget", "BootSourceOverrideEnabled"} {
		if now, ok := f.boot[name].(string); ok {
			body = regexp.MustCompile(`"`+name+`":"[A-Za-z]*"`).ReplaceAllString(body, `"`+name+`":"`+now+`"`)
		}
	}
	say(w, 200, strings.Replace(body, "%s", string(mode), 1))
}

func (f *fake) change(w http.ResponseWriter, r *http.Request) {
	if f.match != nil {
		if code := f.match(r.Header.Get("If-Match")); code != 0 {
			say(w, code, oddError("The ETag supplied did not match the ETag required to change this resource."))
			return
		}
	}
	var in struct{ Boot map[string]any }
	if json.NewDecoder(r.Body).Decode(&in) != nil {
		say(w, 400, oddError("malformed"))
		return
	}
	if f.patch != nil {
		if code := f.patch(f, r.URL.Path, in.Boot); code != 0 {
			say(w, code, oddError("A property is required, or read-only."))
			return
		}
	}
	if f.keep == nil || f.keep(f, r.URL.Path, in.Boot) {
		maps.Copy(f.boot, in.Boot)
	}
	if f.patchAs != nil {
		f.patchAs(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (f *fake) reset(w http.ResponseWriter, r *http.Request) {
	if f.rematch != nil {
		if code := f.rematch(r.Header.Get("If-Match")); code != 0 {
			say(w, code, oddError("If-Match precondition failed"))
			return
		}
	}
	var in struct{ ResetType string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	f.did = append(f.did, in.ResetType)
	f.on = in.ResetType != "ForceOff" && in.ResetType != "GracefulShutdown"
	if f.resetAs != nil {
		f.resetAs(w)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// told returns the requests that the machine received, and its next boot target.
func (f *fake) told() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, _ := f.boot["BootSourceOverrideTarget"].(string)
	mode, _ := f.boot["BootSourceOverrideMode"].(string)
	if from == "" {
		return strings.Join(f.did, " ")
	}
	return strings.TrimSpace(strings.Join(f.did, " ") + " from " + from + " by " + mode)
}
