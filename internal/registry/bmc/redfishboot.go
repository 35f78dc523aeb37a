package bmc

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/naupegos/naupegos/internal/fail"
)

// targets lists boot targets, the best first.
var targets = map[string][]string{FromNetwork: {"Pxe", "UefiHttp"}, FromDisk: {"Hdd"}}

// Modes of Redfish by a machine's firmware.
var modes = map[string]string{"efi": "UEFI", "bios": "Legacy"}

// errNotKept is the error for a boot source that a controller accepts and does not keep.
var errNotKept = errors.New("the BMC accepts the boot source, and does not keep it")

// bootFrom sets the source of the machine's next boot.
func (r *redfish) bootFrom(ctx context.Context, from string) error {
	target := targets[from][0]
	if offered := r.s.boot.targets; len(offered) > 0 {
		at := slices.IndexFunc(targets[from], func(t string) bool { return slices.Contains(offered, t) })
		if at < 0 {
			return fail.New(fail.Refused, "the BMC can't boot its machine from the %s: it offers %s", from, strings.Join(offered, ", ")).At(r.a.Address)
		}
		target = targets[from][at]
	}
	limited, cancel := context.WithTimeout(ctx, settles)
	defer cancel()
	err := r.setBoot(limited, target)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNotKept):
		return fail.Wrap(fail.Refused, err, "make the machine boot from the %s", from).At(r.a.Address).
			Do("set it on the BMC's own pages to see why, update its firmware, or use IPMI (--protocol ipmi)")
	}
	return r.a.refused(err, "make the machine boot from the "+from)
}

// setBoot sets the target of the next boot. Controllers differ in the resource that they accept it on and in whether they require the mode: if a
// controller refuses the target or does not keep it, setBoot tries the next combination.
func (r *redfish) setBoot(ctx context.Context, target string) error {
	places := []string{r.s.path}
	if r.s.settings != "" && r.s.settings != r.s.path {
		places = []string{r.s.settings, r.s.path}
	}
	var first error
	for _, place := range places {
		for _, mode := range r.s.boot.tries(r.a.Firmware) {
			boot := map[string]any{"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": target}
			if mode != "" {
				boot["BootSourceOverrideMode"] = mode
			}
			scheduled, err := r.patch(ctx, place, map[string]any{"Boot": boot})
			if err == nil && !scheduled {
				err = r.kept(ctx, place, target)
			}
			if err == nil {
				return nil
			}
			if first == nil {
				first = err
			}
			if !errors.Is(err, errNotKept) && !slices.Contains([]int{http.StatusBadRequest, http.StatusUnprocessableEntity}, statusOf(err)) {
				break // the refusal has another reason than the body
			}
		}
		if code := statusOf(first); code == 0 && !errors.Is(first, errNotKept) || code == http.StatusUnauthorized || code == http.StatusForbidden || ctx.Err() != nil {
			break
		}
	}
	return first
}

// keeping is how long a controller may take to show a boot source that it has accepted.
const keeping = 2 * time.Second

// kept returns errNotKept if neither the changed resource nor the machine itself shows the boot source, because a status of success does not mean
// that every property was accepted. Unreadable resources, and a machine that shows no boot source at all, do not count.
func (r *redfish) kept(ctx context.Context, place, target string) error {
	tick, late := time.NewTicker(looks), time.After(keeping)
	defer tick.Stop()
	for {
		known := false
		for _, at := range slices.Compact([]string{place, r.s.path}) {
			resp, err := r.c.get(ctx, at, "Boot")
			if err != nil {
				if ctx.Err() != nil {
					return err
				}
				return nil
			}
			boot := resp.fields.object("Boot")
			shown, enabled := boot.text("BootSourceOverrideTarget"), boot.text("BootSourceOverrideEnabled")
			if strings.EqualFold(shown, target) && (enabled == "" || slices.Contains([]string{"once", "continuous"}, strings.ToLower(enabled))) {
				return nil
			}
			// a Settings resource without a boot source is known to accept none
			known = known || shown != "" || at != r.s.path
		}
		if !known {
			return nil
		}
		select {
		case <-tick.C:
		case <-late:
			return errNotKept
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// tries lists boot modes to send, the best first; "" sends none. Some controllers fall back to a default if a request has no mode, others refuse
// any mode. The first is the mode of the machine's firmware; the last serves controllers that accept only the other mode.
func (b redfishBoot) tries(firmware string) []string {
	mode := modes[firmware]
	if mode == "" {
		mode = b.mode
	}
	if mode == "" {
		mode = "UEFI"
	}
	other := "Legacy"
	if mode == other {
		other = "UEFI"
	}
	out := []string{mode, "", other}
	if b.mode == "" && modes[firmware] == "" || b.mode == "" && len(b.modes) == 0 { // the resource has no mode
		out = []string{"", mode, other}
	}
	return slices.DeleteFunc(out, func(m string) bool { return m != "" && len(b.modes) > 0 && !slices.Contains(b.modes, m) })
}

// patch changes a resource. If the resource has changed since it was read, patch reads it again; if a controller does not accept its own tag, patch
// sends the tag in other forms, then any, then none. scheduled reports that the change waits for the machine's reset.
func (r *redfish) patch(ctx context.Context, place string, body any) (scheduled bool, err error) {
	var tried []string
	var refused error
	for range 3 {
		resp, err := r.c.get(ctx, place, "@odata.etag")
		if err != nil && (statusOf(err) == 0 || place == r.s.path) {
			return false, err
		}
		now := &redfishSystem{}
		if err == nil { // some controllers have settings that can be written but not read
			now.etags = resp.etags()
		}
		if refused != nil && slices.Equal(tried, now.etags) {
			break // no other client changes it
		}
		tried, refused = now.etags, nil
		for _, tag := range now.tags() {
			resp, err := r.c.send(ctx, http.MethodPatch, place, tag, body)
			if err == nil {
				return r.c.follow(ctx, resp, waiting)
			}
			if refused == nil || !unmatched(err) {
				refused = err
			}
			if !unmatched(err) {
				return false, refused
			}
		}
	}
	return false, refused
}

// unmatched reports whether a controller requires another If-Match.
func unmatched(err error) bool {
	code := statusOf(err)
	return code == http.StatusPreconditionFailed || code == http.StatusPreconditionRequired
}

// tags lists values of If-Match, the best first: the tags as the controller sent them; as strong tags, because If-Match compares strongly (RFC 9110);
// with quotes; without a suffix that a proxy adds for compression; "*"; none. For a resource without tags, none comes first.
func (s *redfishSystem) tags() (out []string) {
	if len(s.etags) == 0 {
		return []string{"", "*"}
	}
	add := func(tag string) {
		if !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	for _, t := range s.etags {
		add(t)
	}
	for _, t := range s.etags {
		bare := strings.Trim(strings.TrimPrefix(t, "W/"), `"`)
		add(`"` + bare + `"`)
		if plain := strings.TrimSuffix(strings.TrimSuffix(bare, "-gzip"), ";gzip"); plain != bare {
			add(`"` + plain + `"`)
		}
		add(bare)
	}
	add("*")
	add("")
	return out
}
