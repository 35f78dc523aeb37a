package bmc

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
	"github.com/naupegos/naupegos/internal/testkit"
)

// withSettings is a system with its boot source in a Settings resource.
var withSettings = strings.Replace(usualSystem, `"Id"`, `"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/Settings"}},"Id"`, 1)

const settingsPath = "/redfish/v1/Systems/1/Settings"

// TestRedfishKept: setBoot reads the boot source back. If the controller did not keep it, setBoot tries the other mode and the other place, and fails
// before the machine is reset if neither is kept.
func TestRedfishKept(t *testing.T) {
	has := func(boot map[string]any) bool { return boot["BootSourceOverrideMode"] != nil }
	partial := func(w http.ResponseWriter) {
		say(w, 200, `{"BootSourceOverrideTarget@Message.ExtendedInfo":[{"MessageId":"Base.1.8.PropertyNotWritable","Message":"read-only"}]}`)
	}
	never := func(*fake, string, map[string]any) bool { return false }
	late := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		o       odd
		patches int // 0: any number
		refused bool
	}{
		"kept":                      {odd{}, 1, false},
		"kept with 200":             {odd{patchAs: func(w http.ResponseWriter) { say(w, 200, `{}`) }}, 1, false},
		"Supermicro: never":         {odd{keep: never}, 0, true},
		"never, and says so in 200": {odd{keep: never, patchAs: partial}, 0, true},
		"target alone is kept": {odd{keep: func(f *fake, _ string, boot map[string]any) bool {
			f.boot["BootSourceOverrideTarget"] = boot["BootSourceOverrideTarget"]
			return false
		}}, 0, true},
		"kept without a mode alone": {odd{keep: func(_ *fake, _ string, boot map[string]any) bool { return !has(boot) }, patchAs: partial}, 2, false},
		"kept as continuous": {odd{keep: func(f *fake, _ string, boot map[string]any) bool {
			boot["BootSourceOverrideEnabled"] = "Continuous"
			return true
		}}, 1, false},
		"Settings without Boot take anything": {odd{system: withSettings, elsewhere: map[string]string{settingsPath: `{"Id":"Settings"}`},
			keep: func(_ *fake, at string, _ map[string]any) bool { return at != settingsPath }}, 0, false},
		"Settings show it":          {odd{system: withSettings, elsewhere: map[string]string{settingsPath: `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`}, keep: never}, 1, false},
		"Settings show another one": {odd{system: withSettings, elsewhere: map[string]string{settingsPath: `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Hdd"}}`}, keep: never}, 0, true},
		"nothing is shown":          {odd{system: `{"PowerState":%s,"X":%s,"Boot":{}}`, keep: never}, 1, false},
		"the system takes no PATCH": {odd{system: withSettings, elsewhere: map[string]string{settingsPath: `{}`}, keep: never, patch: onlyAt(settingsPath)}, 0, true},
		"Settings can't be read":    {odd{system: withSettings, keep: never}, 1, false},
		"shown with some delay": {odd{keep: func(f *fake, _ string, boot map[string]any) bool {
			late = time.Now().Add(time.Second)
			return false
		}, moved: nil}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := serve(t, c.o)
			a.Firmware = "efi"
			if name == "shown with some delay" {
				f.moved = func(string) (int, string) { // called with each request, under the lock
					if time.Now().After(late) {
						f.boot["BootSourceOverrideTarget"], f.boot["BootSourceOverrideEnabled"] = "Pxe", "Once"
					}
					return 0, ""
				}
			}
			on, err := Controllers{}.Power(t.Context(), a, "on", FromNetwork)
			if c.refused {
				testkit.Fails(t, err, fail.Refused, "accepts the boot source, and does not keep it", "--protocol ipmi")
				if len(f.did) > 0 {
					t.Errorf("the machine was told %v", f.did)
				}
			} else if err != nil || !on {
				t.Errorf("%v, %v", on, err)
			}
			if n := strings.Count(strings.Join(f.seen, ","), "PATCH "); c.patches > 0 && n != c.patches {
				t.Errorf("%d changes, want %d: %s", n, c.patches, strings.Join(f.seen, ", "))
			}
		})
	}
}

func onlyAt(place string) func(*fake, string, map[string]any) int {
	return func(_ *fake, at string, _ map[string]any) int { return map[bool]int{true: 400}[at != place] }
}

// TestRedfishBootTask: the client does not wait for a settings task that runs at the next reset, and reports a task that fails.
func TestRedfishBootTask(t *testing.T) {
	const task = "/redfish/v1/TaskService/Tasks/1"
	as := func(w http.ResponseWriter) {
		w.Header().Set("Location", task)
		say(w, 202, `{"TaskState":"New"}`)
	}
	never := func(*fake, string, map[string]any) bool { return false }
	for name, c := range map[string]struct {
		state   string
		keep    func(*fake, string, map[string]any) bool
		refused string
	}{
		"scheduled for the next reboot": {`{"TaskState":"Pending"}`, never, ""},
		"Starting until then":           {`{"TaskState":"Starting"}`, never, ""},
		"completed":                     {`{"TaskState":"Completed"}`, nil, ""},
		"completed, and not kept":       {`{"TaskState":"Completed"}`, never, "does not keep it"},
		"failed":                        {`{"TaskState":"Exception","Messages":[{"Message":"job queue is full"}]}`, never, "job queue is full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, a := serve(t, odd{system: withSettings, keep: c.keep, patchAs: as, elsewhere: map[string]string{task: c.state, settingsPath: `{"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None"}}`}})
			_, err := Controllers{}.Power(t.Context(), a, "on", FromNetwork)
			if c.refused != "" {
				testkit.Fails(t, err, fail.Refused, c.refused)
				return
			}
			if n := strings.Count(strings.Join(f.seen, ","), "PATCH "); err != nil || n != 1 {
				t.Errorf("%v; %d changes", err, n)
			}
		})
	}
}
