package bmc

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// roots are service roots without sessions, like those of several services.
var roots = map[string]string{
	"sushy-tools": `{"@odata.type":"#ServiceRoot.v1_5_0.ServiceRoot","Id":"RedvirtService","RedfishVersion":"1.5.0","Systems":{"@odata.id":"/redfish/v1/Systems"},
"Managers":{"@odata.id":"/redfish/v1/Managers"},"@odata.id":"/redfish/v1/"}`,
	"FakeFish":     `{"@odata.id":"/redfish/v1/","Id":"FakeFish Service","Systems":{"@odata.id":"/redfish/v1/Systems"},"Managers":{"@odata.id":"/redfish/v1/Managers"}}`,
	"null links":   `{"Systems":{"@odata.id":"/redfish/v1/Systems"},"Links":null,"SessionService":null}`,
	"nothing":      `{}`,
	"wrong types":  `{"Systems":7,"Links":[],"SessionService":{"@odata.id":12}}`,
	"byte order":   "\xef\xbb\xbf{}",
	"string links": `{"Systems":"/redfish/v1/Systems","Links":{}}`,
}

func refusing(code int, text string) func(*fake) (int, string) {
	return func(*fake) (int, string) { return code, text }
}

// TestRedfishLogin logs in to services with sessions, without sessions, and with unavailable ones.
func TestRedfishLogin(t *testing.T) {
	type login struct {
		o       odd
		refused string // empty: login succeeds
		kind    fail.Kind
		open    int
	}
	cases := map[string]login{
		"sessions":                       {o: odd{}},
		"sessions alone":                 {o: odd{noBasic: true}},
		"the root for known users alone": {o: odd{rootCode: 401}},
		"SessionService without Links":   {o: odd{root: `{"SessionService":{"@odata.id":"/redfish/v1/SessionService"}}`, noBasic: true}},
		"slots exhausted": {o: odd{noBasic: true, sessions: refusing(400, oddError("The session establishment failed due to the number of simultaneous sessions exceeding the limit."))},
			refused: "simultaneous sessions", kind: fail.Refused},
		"busy once, sessions alone": {o: odd{noBasic: true, sessions: func(f *fake) (int, string) {
			if f.logins < 2 {
				return 503, ""
			}
			return 0, ""
		}}},
		"a session without a token": {o: odd{sessions: refusing(201, `{"Id":"1"}`)}},
	}
	for name, root := range roots {
		cases["root of "+name] = login{o: odd{root: root}}
	}
	for _, code := range []int{400, 401, 403, 404, 405, 406, 409, 415, 429, 500, 501, 503} {
		bodies := []string{oddError("no")}
		if code == 401 || code == 503 || testkit.Full() {
			bodies = append(bodies, "", "<html></html>")
		}
		for _, body := range bodies {
			cases[http.StatusText(code)+" to a login, "+body] = login{o: odd{asks: `Basic realm="BMC"`, sessions: refusing(code, body)}}
		}
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := serve(t, c.o)
			began := time.Now()
			on, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
			if c.refused != "" {
				testkit.Fails(t, err, c.kind, c.refused)
			} else if err != nil || on {
				t.Errorf("%v, %v", on, err)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("it took %s", took)
			}
			if f.open != c.open {
				t.Errorf("%d sessions are open", f.open)
			}
		})
		t.Run(name+", wrong password", func(t *testing.T) {
			t.Parallel()
			_, a := serve(t, c.o)
			a.Password = []byte("wrong-" + testkit.Secret)
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // number of retries while the service is busy
			defer cancel()
			_, err := Controllers{}.Power(ctx, a, "status", AsUsual)
			if k := fail.KindOf(err); k != fail.Unauthorized && k != fail.Refused && k != fail.NotReady || strings.Contains(err.Error(), testkit.Secret) {
				t.Errorf("%v: %v", k, err)
			}
		})
	}
}

// TestRedfishTries counts how often an action sends a password: controllers lock accounts after a few wrong ones.
func TestRedfishTries(t *testing.T) {
	for name, c := range map[string]struct {
		o    odd
		most int
	}{
		"sessions and Basic":                  {odd{}, 1},
		"sessions alone":                      {odd{noBasic: true}, 1},
		"a 401 that asks for a token":         {odd{asks: "Bearer"}, 1},
		"a 401 that asks for the password":    {odd{asks: `Bearer, basic realm="x"`}, 2},
		"no sessions":                         {odd{root: roots["sushy-tools"]}, 1},
		"a root that tells strangers nothing": {odd{rootCode: 401}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := serve(t, c.o)
			a.Password = []byte("wrong-" + testkit.Secret)
			_, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
			testkit.Fails(t, err, fail.Unauthorized, "user or password are not accepted")
			if n := f.logins + f.basics; n < 1 || n > c.most {
				t.Errorf("the password was sent %d times, not %d: %s", n, c.most, strings.Join(f.seen, ", "))
			}
		})
	}
}

// TestRedfishRedirect: the client follows a controller to another path of its own, and nowhere else.
func TestRedfishRedirect(t *testing.T) {
	for _, code := range []int{301, 302, 307, 308} {
		f, a := serve(t, odd{})
		f.root = usualRoot
		testkit.Value(Controllers{}.Power(t.Context(), redirected(t, f, a, code, "/redfish/v1/"), "status", AsUsual))(t)
		_, err := Controllers{}.Power(t.Context(), redirected(t, f, a, code, "https://192.0.2.1/redfish/v1/"), "status", AsUsual)
		testkit.Fails(t, err, fail.Refused, "not its own")
	}
}

// TestRedfishMode: the client sets the boot mode as each controller requires.
func TestRedfishMode(t *testing.T) {
	has := func(boot map[string]any) bool { return boot["BootSourceOverrideMode"] != nil }
	want := func(ok func(f *fake, at string, boot map[string]any) bool) func(*fake, string, map[string]any) int {
		return func(f *fake, at string, boot map[string]any) int {
			if ok(f, at, boot) {
				return 0
			}
			return 400
		}
	}
	noMode := strings.Replace(usualSystem, `"BootSourceOverrideMode":%s,`, "", 1)
	const settings = `"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/Settings"}},"Id"`
	for name, c := range map[string]struct {
		o        odd
		firmware string
		now      any // the previous mode
		want     string
	}{
		"UEFI stays":                    {odd{}, "efi", "UEFI", "UEFI"},
		"BIOS stays":                    {odd{}, "bios", "Legacy", "Legacy"},
		"it is the firmware's":          {odd{}, "bios", "UEFI", "Legacy"},
		"and the other way":             {odd{}, "efi", "Legacy", "UEFI"},
		"unknown firmware":              {odd{}, "", "Legacy", "Legacy"},
		"unknown firmware, null":        {odd{}, "", nil, ""},
		"null":                          {odd{}, "efi", nil, ""},
		"no mode in the resource (HPE)": {odd{system: noMode}, "efi", nil, ""},
		"Supermicro: lost where it is not sent": {odd{patch: func(f *fake, _ string, boot map[string]any) int {
			if !has(boot) {
				f.boot["BootSourceOverrideMode"] = "Legacy"
			}
			return 0
		}}, "efi", "UEFI", "UEFI"},
		"required, and not shown":  {odd{system: noMode, patch: want(func(_ *fake, _ string, b map[string]any) bool { return has(b) })}, "bios", nil, "Legacy"},
		"iLO: read-only":           {odd{patch: want(func(_ *fake, _ string, b map[string]any) bool { return !has(b) })}, "efi", "UEFI", "UEFI"},
		"only the other mode":      {odd{patch: want(func(_ *fake, _ string, b map[string]any) bool { return b["BootSourceOverrideMode"] == "Legacy" })}, "efi", "Legacy", "Legacy"},
		"422 for 400":              {odd{patch: func(_ *fake, _ string, b map[string]any) int { return map[bool]int{true: 422}[has(b)] }}, "efi", "UEFI", "UEFI"},
		"iDRAC: in Settings alone": {odd{system: strings.Replace(usualSystem, `"Id"`, settings, 1), patch: want(func(_ *fake, at string, _ map[string]any) bool { return strings.HasSuffix(at, "/Settings") })}, "efi", "UEFI", "UEFI"},
		"in the system alone":      {odd{system: strings.Replace(usualSystem, `"Id"`, settings, 1), patch: want(func(_ *fake, at string, _ map[string]any) bool { return !strings.HasSuffix(at, "/Settings") })}, "efi", "UEFI", "UEFI"},
		"Settings that are not there": {odd{system: strings.Replace(usualSystem, `"Id"`, settings, 1), patch: func(_ *fake, at string, _ map[string]any) int {
			return map[bool]int{true: 405}[strings.HasSuffix(at, "/Settings")]
		}}, "efi", "UEFI", "UEFI"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := serve(t, c.o)
			f.boot["BootSourceOverrideMode"], a.Firmware = c.now, c.firmware
			testkit.Value(Controllers{}.Power(t.Context(), a, "on", FromNetwork))(t)
			if told, want := f.told(), strings.TrimSpace("On from Pxe by "+c.want); told != want {
				t.Errorf("the machine was told %q, want %q; asked: %s", told, want, strings.Join(f.seen, ", "))
			}
		})
	}
	f, a := serve(t, odd{patch: func(*fake, string, map[string]any) int { return 400 }})
	_, err := Controllers{}.Power(t.Context(), a, "on", FromNetwork)
	testkit.Fails(t, err, fail.Refused, "HTTP 400 A property is required")
	if told := f.told(); told != "" {
		t.Errorf("the machine was told %q", told)
	}
}

// TestRedfishTags: the client sends If-Match as each controller compares it.
func TestRedfishTags(t *testing.T) {
	only := func(accepted ...string) func(string) int {
		return func(m string) int {
			if slices.Contains(accepted, m) {
				return 0
			}
			if m == "" {
				return 428
			}
			return 412
		}
	}
	in := func(tag string) string { return strings.Replace(usualSystem, `"Id"`, `"@odata.etag":`+tag+`,"Id"`, 1) }
	for name, o := range map[string]odd{
		"as in the header":                {etag: `"abc"`, match: only(`"abc"`)},
		"as in the body":                  {system: in(`"\"abc\""`), match: only(`"abc"`)},
		"weak, compared weakly":           {system: in(`"W/\"1682532272\""`), match: only(`W/"1682532272"`)},
		"weak, compared strongly":         {system: in(`"W/\"1682532272\""`), match: only(`"1682532272"`)},
		"weak in the header":              {etag: `W/"a"`, match: only(`"a"`)},
		"the body's, not the header's":    {etag: `W/"a"`, system: in(`"\"b\""`), match: only(`"b"`)},
		"doubled quotes in the header":    {etag: `""abc""`, system: in(`"\"abc\""`), match: only(`"abc"`)},
		"doubled quotes alone":            {etag: `""abc""`, match: only(`"abc"`)},
		"quotes missing":                  {etag: `abc`, match: only(`"abc"`)},
		"quotes missing, and not wanted":  {etag: `abc`, match: only(`abc`)},
		"quotes not wanted":               {etag: `"abc"`, match: only(`abc`)},
		"a weak one without quotes":       {etag: `W/abc`, match: only(`"abc"`)},
		"compressed":                      {etag: `"x-gzip"`, match: only(`"x"`)},
		"never right, none wanted":        {etag: `"1"`, match: func(m string) int { return map[bool]int{true: 412}[m != ""] }},
		"never right, any wanted":         {etag: `"1"`, match: only("*")},
		"none given, any wanted":          {match: only("*")},
		"none given, 412 without":         {match: func(m string) int { return map[bool]int{true: 412}[m != "*"] }},
		"none given, none wanted":         {match: func(m string) int { return map[bool]int{true: 412}[m != ""] }},
		"null":                            {system: in(`null`), match: only("*")},
		"a number":                        {system: in(`5`), match: only("*")},
		"empty":                           {system: in(`""`), match: only("*")},
		"resets refuse If-Match (gofish)": {etag: `"1"`, rematch: func(m string) int { return map[bool]int{true: 412}[m != ""] }},
		"resets want If-Match (Huawei)":   {etag: `"1"`, rematch: only(`"1"`)},
		"resets want any":                 {rematch: only("*")},
		"resets want a strong one":        {etag: `W/"1"`, rematch: only(`"1"`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := serve(t, o)
			testkit.Value(Controllers{}.Power(t.Context(), a, "on", FromDisk))(t)
			if told := f.told(); told != "On from Hdd by UEFI" {
				t.Errorf("the machine was told %q; asked: %s", told, strings.Join(f.seen, ", "))
			}
			if len(f.seen) > 25 {
				t.Errorf("it took %d requests", len(f.seen))
			}
		})
	}
	f, a := serve(t, odd{etag: `"1"`, match: func(string) int { return 412 }})
	_, err := Controllers{}.Power(t.Context(), a, "on", FromDisk)
	testkit.Fails(t, err, fail.Refused, "HTTP 412")
	if len(f.seen) > 15 || f.told() != "" {
		t.Errorf("it took %d requests, and the machine was told %q", len(f.seen), f.told())
	}
}

// TestRedfishStates: the client knows for each state whether the machine is on, and switches a machine in any state on and off.
func TestRedfishStates(t *testing.T) {
	for state, c := range map[string]struct {
		on    bool
		known bool
		says  string
	}{
		`"On"`: {true, true, ""}, `"on"`: {true, true, ""}, `"ON"`: {true, true, ""}, `"Off"`: {false, true, ""}, `"off"`: {false, true, ""},
		`"PoweringOn"`: {says: `"PoweringOn"`}, `"PoweringOff"`: {says: `"PoweringOff"`}, `"Paused"`: {says: `"Paused"`}, `"Reset"`: {says: `"Reset"`},
		`"Unknown"`: {says: `"Unknown"`}, `"Sleeping\u001b[2J"`: {says: "Sleeping"}, `null`: {says: "does not say"}, `""`: {says: "does not say"}, `true`: {says: "does not say"},
		`{}`: {says: "does not say"}, `1`: {says: "does not say"},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			_, a := serve(t, odd{states: []string{state}})
			on, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
			if c.known {
				if err != nil || on != c.on {
					t.Errorf("%v, %v", on, err)
				}
				return
			}
			testkit.Fails(t, err, fail.NotReady, c.says)
			if strings.ContainsRune(err.Error(), 0x1b) {
				t.Errorf("it can't be printed: %q", err)
			}
			for action, told := range map[string]string{"on": "On", "off": "ForceOff", "cycle": "ForceOff On"} {
				states := []string{state, `"Off"`, `"On"`}
				switch action {
				case "on":
					states = []string{state, `"On"`}
				case "off":
					states = []string{state, `"Off"`}
				}
				switch state + action {
				case `"PoweringOn"on`, `"PoweringOff"off`:
					told = ""
				case `"PoweringOff"cycle`:
					told = "On"
				}
				f, a := serve(t, odd{states: states})
				on, err := Controllers{}.Power(t.Context(), a, action, AsUsual)
				if err != nil || on != (action != "off") || f.told() != told {
					t.Errorf("%s: %v, %v; it was told %q, want %q", action, on, err, f.told(), told)
				}
			}
		})
	}
	_, a := serve(t, odd{states: []string{`null`}})
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	_, err := Controllers{}.Power(ctx, a, "on", AsUsual)
	testkit.Fails(t, err, fail.NotReady, "its power is as it was")
}
