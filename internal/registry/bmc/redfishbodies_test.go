package bmc

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// redirected is the access to a server in front of f that redirects the root.
func redirected(t *testing.T, f *fake, a Access, code int, to string) Access {
	t.Helper()
	behind := testkit.Value(url.Parse("https://" + a.Address))(t)
	proxy := httputil.NewSingleHostReverseProxy(behind)
	proxy.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	done := false
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/redfish/v1/" && !done {
			done = true
			http.Redirect(w, r, to, code)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	sum := sha256.Sum256(s.Certificate().Raw)
	a.Address, a.Fingerprint = strings.TrimPrefix(s.URL, "https://"), "sha256:"+hex.EncodeToString(sum[:])
	return a
}

// makes are ComputerSystems of several vendors: the fields that power control needs, and some others.
var makes = map[string]odd{
	"sushy-tools": {root: roots["sushy-tools"], at: "/redfish/v1/Systems/c7a5fdbd-cdaf-9455-926a-d65c16db1809", system: `{"@odata.type":"#ComputerSystem.v1_13_0.ComputerSystem","Id":"c7a5fdbd-cdaf-9455-926a-d65c16db1809",
"Name":"vbmc","UUID":"c7a5fdbd-cdaf-9455-926a-d65c16db1809","PowerState":%s,"Boot":{"BootSourceOverrideEnabled":"Continuous","BootSourceOverrideTarget":"Hdd",
"BootSourceOverrideTarget@Redfish.AllowableValues":["Pxe","Cd","Hdd","UefiHttp"],"BootSourceOverrideMode":%s,"UefiTargetBootSourceOverride":"/0x31/0x33/0x01/0x01","HttpBootUri":""},
"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/c7a5fdbd-cdaf-9455-926a-d65c16db1809/Actions/ComputerSystem.Reset",
"ResetType@Redfish.AllowableValues":["On","ForceOff","GracefulShutdown","GracefulRestart","ForceRestart","Nmi","ForceOn"]}}}`},
	"FakeFish": {root: roots["FakeFish"], system: `{"Id":"1","UUID":"","PowerState":%s,"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":%s,
"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["Cd","Hdd","Pxe"]},"Actions":{"#ComputerSystem.Reset":{
"ResetType@Redfish.AllowableValues":["On","ForceOff","ForceRestart","GracefulShutdown"],"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset"}},"Links":{"Chassis":[],"ManagedBy":[]}}`},
	"Dell iDRAC": {at: "/redfish/v1/Systems/System.Embedded.1", etag: `W/"gen-3"`, match: func(m string) int { return map[bool]int{true: 412}[m != "" && m != `W/"gen-3"`] },
		system: `{"@odata.id":"/redfish/v1/Systems/System.Embedded.1","Id":"System.Embedded.1","UUID":"4c4c4544-0035-3010-8048-b7c04f335931","PowerState":%s,
"Boot":{"BootOptions":{"@odata.id":"/redfish/v1/Systems/System.Embedded.1/BootOptions"},"BootOrder":["NIC.PxeDevice.1-1"],"BootOrder@odata.count":1,"BootSourceOverrideEnabled":"Disabled",
"BootSourceOverrideMode":%s,"BootSourceOverrideTarget":"None","UefiTargetBootSourceOverride":null,"BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Floppy","Cd","Hdd","BiosSetup","Utilities","UefiTarget","SDCard","UefiHttp"]},
"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/System.Embedded.1/Actions/ComputerSystem.Reset","ResetType@Redfish.AllowableValues":["On","ForceOff","ForceRestart","GracefulRestart","GracefulShutdown","PushPowerButton","Nmi","PowerCycle"]}},
"MemorySummary":{"TotalSystemMemoryGiB":476.8},"SimpleStorage":{"@odata.id":"/x"},"TrustedModules":[{"FirmwareVersion":"1.3"}],"Oem":{"Dell":{"DellSystem":{"LastUpdateTime":"2021-10-06T17:04:10+00:00"}}}}`},
	"HPE iLO 5": {at: "/redfish/v1/Systems/1/", etag: `W/"E2AA61B2"`, patch: func(_ *fake, _ string, boot map[string]any) int {
		return map[bool]int{true: 400}[boot["BootSourceOverrideMode"] != nil]
	}, system: `{"@odata.etag":"W/\"E2AA61B2\"","@odata.id":"/redfish/v1/Systems/1/","Id":"1","UUID":"30373237-3132-4D32-3231-303131324C37","PowerState":%s,
"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":%s,"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Cd","Hdd","Usb","SDCard","Utilities","Diags","BiosSetup","Pxe","UefiShell","UefiHttp","UefiTarget"]},
"Actions":{"#ComputerSystem.Reset":{"ResetType@Redfish.AllowableValues":["On","ForceOff","GracefulShutdown","ForceRestart","Nmi","PushPowerButton","GracefulRestart"],"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset/"}},
"Bios":{"@odata.id":"/redfish/v1/systems/1/bios/"},"Oem":{"Hpe":{"PostState":"PowerOff"}}}`,
		resetAs: func(w http.ResponseWriter) {
			say(w, 200, `{"error":{"code":"iLO.0.10.ExtendedInfo","message":"See @Message.ExtendedInfo for more information.","@Message.ExtendedInfo":[{"MessageId":"Base.1.4.Success"}]}}`)
		}},
	"HPE iLO 4": {system: `{"@odata.id":"/redfish/v1/Systems/1/","Id":"1","UUID":"30373237-3132-4D32-3231-303131324C37","Power":"Off","PowerState":%s,
"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideSupported":["None","Cd","Hdd"],"BootSourceOverrideMode":%s},"Actions":{"#ComputerSystem.Reset":{"ResetType@Redfish.AllowableValues":["On","ForceOff","ForceRestart"],"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset/"}}}`},
	"Supermicro X12": {info: `{"Parameters":[{"Name":"ResetType","Required":true,"AllowableValues":["On","ForceOff","GracefulShutdown","GracefulRestart","ForceRestart","Nmi","ForceOn"]}]}`,
		system: `{"@odata.id":"/redfish/v1/Systems/1","Id":"1","UUID":"EE20C400-81D4-11EB-8000-3CECEF5E3D72","PowerState":%s,"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":%s,
"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Floppy","Cd","Usb","Hdd","BiosSetup","UsbCd","UefiBootNext","UefiHttp"]},
"Actions":{"Oem":{},"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset","@Redfish.ActionInfo":"/redfish/v1/Systems/1/ResetActionInfo",
"ResetType@Redfish.AllowableValues":["On","ForceOff","GracefulShutdownGracefulRestart","ForceRestart","Nmi","ForceOn"]}},"Oem":{"Supermicro":{}}}`},
	"Lenovo XCC": {at: "/redfish/v1/Systems/1", etag: `"24ed8e51d29d3c6a8b1"`, match: func(m string) int { return map[bool]int{true: 412}[m != `"24ed8e51d29d3c6a8b1"`] },
		info: `{"Parameters":[{"Name":"ResetType","AllowableValues":["On","Nmi","GracefulShutdown","GracefulRestart","ForceOn","ForceOff","ForceRestart"]}]}`,
		system: `{"@odata.etag":"\"24ed8e51d29d3c6a8b1\"","@odata.id":"/redfish/v1/Systems/1","Id":"1","UUID":"8BFABAB7-6F12-11E7-B08E-0A94EF0FBE51","PowerState":%s,
"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideMode":%s,"BootSourceOverrideMode@Redfish.AllowableValues":["UEFI","Legacy"],"BootSourceOverrideTarget":"None",
"BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Cd","Usb","Hdd","BiosSetup","Diags","UefiTarget"]},
"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/1/Actions/ComputerSystem.Reset","title":"Reset","@Redfish.ActionInfo":"/redfish/v1/Systems/1/ResetActionInfo"}}}`},
	"DMTF's mock-up": {at: "/redfish/v1/Systems/437XR1138R2", system: `{"@odata.type":"#ComputerSystem.v1_20_0.ComputerSystem","Id":"437XR1138R2","SystemType":"Physical",
"UUID":"38947555-7742-3448-3784-823347823834","Status":{"State":"Enabled","Health":"OK"},"HostingRoles":["ApplicationServer"],"PowerState":%s,
"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":%s,"BootSourceOverrideTarget":"Pxe","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Floppy","Cd","Usb","Hdd","BiosSetup","Utilities","Diags","UefiTarget"],"UefiTargetBootSourceOverride":"/0x31"},
"Actions":{"#ComputerSystem.Reset":{"target":"/redfish/v1/Systems/437XR1138R2/Actions/ComputerSystem.Reset","ResetType@Redfish.AllowableValues":["On","ForceOff","GracefulShutdown","GracefulRestart","ForceRestart","Nmi","ForceOn","PushPowerButton"]}},
"@odata.id":"/redfish/v1/Systems/437XR1138R2"}`},
}

// TestRedfishMakes performs all actions on machines of several vendors.
func TestRedfishMakes(t *testing.T) {
	for name, o := range makes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := serve(t, o)
			a.Firmware = "efi"
			for _, s := range []struct {
				action, boot string
				on           bool
			}{{"status", "", false}, {"on", FromNetwork, true}, {"reset", "", true}, {"cycle", FromDisk, true}, {"off", "", false}, {"on", "", true}} {
				if on, err := (Controllers{}).Power(t.Context(), a, s.action, s.boot); err != nil || on != s.on {
					t.Errorf("%s from %q: %v, %v; %s", s.action, s.boot, on, err, strings.Join(f.seen, ", "))
				}
			}
			if name != "HPE iLO 4" { // it reports none
				if on, err := (Controllers{}).Power(t.Context(), a, "shutdown", AsUsual); err != nil || on {
					t.Errorf("shutdown: %v, %v", on, err)
				}
			}
			if f.open != 0 {
				t.Errorf("%d sessions are open", f.open)
			}
		})
	}
}

// TestRedfishOtherFields puts values of all types into every field that power control does not need, and into its optional fields.
func TestRedfishOtherFields(t *testing.T) {
	values := []string{`null`, `"64"`, `12345`, `{}`, `[]`, `[null]`, `true`, `{"@odata.id":"/x"}`, `{"Count":"2","TotalSystemMemoryGiB":"64"}`, `1e400`, `""`}
	names := strings.Fields(`MemorySummary ProcessorSummary Status HostingRoles Bios Oem Links SerialNumber IndicatorLED AssetTag OperatingSystem PCIeDevices
		PCIeFunctions Location LastResetTime BootProgress TrustedModules SystemType Name Description Id UUID @odata.type @odata.id @odata.etag @Redfish.Settings x`)
	sets := [][]string{names} // all at once
	if testkit.Full() {
		for _, n := range names {
			sets = append(sets, []string{n})
		}
	}
	for _, set := range sets {
		for _, v := range values {
			more := ""
			for _, field := range set {
				more += fmt.Sprintf("%q:%s,", field, v)
			}
			_, a := serve(t, odd{system: strings.Replace(usualSystem, `"PowerState"`, more+`"PowerState"`, 1)})
			if _, err := (Controllers{}).Power(t.Context(), a, "on", FromNetwork); err != nil {
				t.Errorf("%s in %v: %v", v, set, err)
			}
		}
	}
	const least = `{"PowerState":%s,"X":%s`
	for _, rest := range []string{``, `,"Boot":null,"Actions":null`, `,"Boot":[],"Actions":"x"`, `,"Boot":{},"Actions":{}`, `,"Actions":{"#ComputerSystem.Reset":{"target":null}}`,
		`,"Boot":{"BootSourceOverrideTarget@Redfish.AllowableValues":null}`, `,"Boot":{"BootSourceOverrideTarget@Redfish.AllowableValues":[7,"Pxe"]}`} {
		f, a := serve(t, odd{system: least + rest + "}"})
		if _, err := (Controllers{}).Power(t.Context(), a, "on", FromNetwork); err != nil || f.told() != "On from Pxe by UEFI" {
			t.Errorf("%s: %v, told %q", rest, err, f.told())
		}
	}
	f, a := serve(t, odd{system: strings.Replace(usualSystem, `"Id"`, `"Oem":{"Log":["`+strings.Repeat("x", 8<<20)+`"]},"Id"`, 1)})
	if on, err := (Controllers{}).Power(t.Context(), a, "on", AsUsual); err != nil || !on || f.told() != "On" {
		t.Errorf("8 MiB more: %v, %v", on, err)
	}
	for _, body := range []string{"<html></html>", "[]", `{"PowerState":`, `null`} {
		_, a := serve(t, odd{system: body})
		_, err := Controllers{}.Power(t.Context(), a, "status", AsUsual)
		testkit.Fails(t, err, fail.Refused, "/redfish/v1/Systems/1")
	}
}

// TestRedfishNeighbours reads the requested machine: other machines' answers do not matter.
func TestRedfishNeighbours(t *testing.T) {
	for _, code := range []int{200, 400, 401, 403, 404, 500, 501} {
		for _, by := range []string{"UUID", "system", "path"} {
			f, a := serve(t, odd{members: []string{"HGX_Baseboard_0", "BlueField"}, other: code})
			switch by {
			case "system":
				a.System, a.UUID = "1", ""
			case "path":
				f.at, f.system = "/redfish/v1/Systems/Node-1", strings.Replace(usualSystem, `"Id":"1"`, `"Id":"other"`, 1)
				a.System, a.UUID = "Node-1", ""
			}
			if on, err := (Controllers{}).Power(t.Context(), a, "status", AsUsual); err != nil || on {
				t.Errorf("others answer %d, chosen by %s: %v, %v", code, by, on, err)
			}
		}
	}
	f, a := serve(t, odd{members: []string{"HGX_Baseboard_0"}, other: 404})
	a.UUID = "f2a1bb00-0000-0000-0000-000000000003"
	_, err := Controllers{}.Power(t.Context(), a, "on", AsUsual)
	testkit.Fails(t, err, fail.NotFound, "HGX_Baseboard_0 (which can't be read)", "--system")
	if f.told() != "" {
		t.Errorf("it was told %q", f.told())
	}
}

// TestRedfishTasks follows the task of a reset.
func TestRedfishTasks(t *testing.T) {
	accepted := func(location, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			if location != "" {
				w.Header().Set("Location", location)
			}
			say(w, 202, body)
		}
	}
	const task = "/redfish/v1/TaskService/Tasks/1"
	for name, c := range map[string]struct {
		o       odd
		refused string
	}{
		"200, HTML":                 {odd{resetAs: func(w http.ResponseWriter) { say(w, 200, "<html></html>") }}, ""},
		"200, empty":                {odd{resetAs: func(w http.ResponseWriter) { say(w, 200, "") }}, ""},
		"202, empty":                {odd{resetAs: accepted("", "")}, ""},
		"202, path":                 {odd{resetAs: accepted(task, ""), elsewhere: map[string]string{task: `{"TaskState":"Completed"}`}}, ""},
		"202, another host":         {odd{resetAs: accepted("https://bmc.example.com"+task, "")}, ""},
		"202, no HTTPS":             {odd{resetAs: accepted("http://10.0.0.1"+task, "")}, ""},
		"202, body alone":           {odd{resetAs: accepted("", `{"@odata.id":"`+task+`","TaskState":"New"}`), elsewhere: map[string]string{task: `{"TaskState":"Exception","Messages":[{"Message":"no power supply"}]}`}}, "no power supply"},
		"202, messages of one text": {odd{resetAs: accepted(task, ""), elsewhere: map[string]string{task: `{"TaskState":"Killed","Messages":["x"]}`}}, "Killed"},
	} {
		f, a := serve(t, c.o)
		_, err := Controllers{}.Power(t.Context(), a, "on", AsUsual)
		if c.refused != "" {
			testkit.Fails(t, err, fail.Refused, c.refused)
		} else if err != nil || f.told() != "On" {
			t.Errorf("%s: %v, told %q", name, err, f.told())
		}
	}
}
